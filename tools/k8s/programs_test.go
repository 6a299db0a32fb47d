package k8s

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// programs is the folder of the current programs.
var programs string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if programs, err = os.MkdirTemp("", "leasestorm-k8s-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(programs)
		build := exec.Command("go", "build", "-o", programs, "./cmd/node", "./cmd/simulate")
		build.Dir = repository
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// program is a container's program, with its command line and environment.
type program struct {
	name string
	args []string
	env  map[string]string // variables whose value is known only in the cluster are empty
}

func programOf(c *corev1.Container, maps map[string]*corev1.ConfigMap) program {
	image, _, _ := strings.Cut(c.Image, ":")
	p := program{name: filepath.Base(image), env: map[string]string{}}
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef != nil && maps[from.ConfigMapRef.Name] != nil {
			for name, value := range maps[from.ConfigMapRef.Name].Data {
				p.env[name] = value
			}
		}
	}
	for _, e := range c.Env {
		p.env[e.Name] = e.Value
	}
	for _, arg := range c.Args {
		p.args = append(p.args, variable.ReplaceAllStringFunc(arg, func(ref string) string {
			if value, ok := p.env[ref[2:len(ref)-1]]; ok {
				return value
			}
			return ref // as the kubelet does
		}))
	}
	return p
}

var variable = regexp.MustCompile(`\$\([A-Z_]+\)`)

// help returns the program's help with these settings. The program reads all of them first, so an unknown or invalid one is an error.
func (p program) help() (string, error) {
	run := exec.Command(filepath.Join(programs, p.name), append(slices.Clone(p.args), "--help")...)
	for _, name := range slices.Sorted(maps.Keys(p.env)) {
		run.Env = append(run.Env, name+"="+p.env[name])
	}
	out, err := run.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", p.name, strings.Join(p.args, " "), err, out)
	}
	return string(out), nil
}

// setting returns the value of a flag.
func (p program) setting(flag string) string {
	for _, arg := range p.args {
		if value, ok := strings.CutPrefix(arg, "--"+flag+"="); ok {
			return value
		}
	}
	return ""
}

// duration returns the value of a flag, or else the program's default, or else def.
func (p program) duration(flag string, def time.Duration) (time.Duration, error) {
	value := p.setting(flag)
	if value == "" {
		help, err := p.help()
		if err != nil {
			return 0, err
		}
		found := regexp.MustCompile(`(?m)^ *--` + flag + ` .*\(default (\S+)\)$`).FindStringSubmatch(help)
		if found == nil {
			return def, nil
		}
		value = found[1]
	}
	return time.ParseDuration(value)
}

// stopMax is the longest time from SIGTERM to a node's end. It adds up the times in the doc comments of lease/poll.Config and
// lease/intent/worker.Worker.Stop, and a second for each listener.
func (p program) stopMax() (time.Duration, error) {
	const listener = time.Second
	ttl, err := p.duration("ttl", 0)
	if err != nil || ttl == 0 {
		return 0, fmt.Errorf("ttl of %s %v: %v, %w", p.name, p.args, ttl, err)
	}
	if p.setting("system") == "intents" {
		answer, err := p.duration("op-timeout", ttl/10)
		if p.setting("role") == "api" {
			return 2 * listener, err
		}
		return ttl + 3*answer + 2*listener, err
	}
	timeout, err := p.duration("poll-timeout", ttl/3)
	if err != nil {
		return 0, err
	}
	drain, err := p.duration("drain", timeout)
	if err != nil {
		return 0, err
	}
	stuck, err := p.duration("stuck", ttl/3)
	return drain + 2*stuck + listener, err
}
