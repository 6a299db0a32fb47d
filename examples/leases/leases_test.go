package leases

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// process is a running adapter.
type process struct {
	in  io.Writer
	out *bufio.Scanner
	id  int
}

func start(t *testing.T, url, instance string, argv []string) *process {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "LEASESTORM_REDIS_URL="+url, "LEASESTORM_INSTANCE="+instance, "LEASESTORM_TTL_MS=60000",
		"LEASESTORM_LEASE_PREFIX=poll:lease:")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // it ends with its input
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%q: %v", argv, err)
		}
	})
	return &process{in: in, out: bufio.NewScanner(out)}
}

// ask sends a request and wants this answer.
func (p *process) ask(t *testing.T, op, key string, ok bool) {
	t.Helper()
	p.id++
	fmt.Fprintf(p.in, `{"id":%d,"op":%q,"key":%q,"ttl_ms":60000}`+"\n", p.id, op, key)
	for p.out.Scan() {
		var a struct {
			ID    int
			OK    bool
			Event string
		}
		if err := json.Unmarshal(p.out.Bytes(), &a); err != nil {
			t.Fatalf("%s: %v", p.out.Text(), err)
		}
		if a.Event != "" {
			continue
		}
		if a.ID != p.id || a.OK != ok {
			t.Fatalf("%s of %s: %s, want id %d, ok %v", op, key, p.out.Text(), p.id, ok)
		}
		return
	}
	t.Fatalf("%s of %s: no answer", op, key)
}

// play makes two instances take turns. One of them loses its lease, if the store can lose it.
func play(t *testing.T, url string, loses bool, argv ...string) {
	t.Helper()
	if _, err := exec.LookPath(argv[0]); err != nil {
		t.Skip("not installed: " + argv[0])
	}
	a, b := start(t, url, "a", argv), start(t, url, "b", argv)
	one, two := "poll:lease:1"+t.Name(), "poll:lease:2"+t.Name()
	a.ask(t, "acquire", one, true)
	b.ask(t, "acquire", two, true)
	b.ask(t, "acquire", one, false)
	a.ask(t, "renew", one, true)
	a.ask(t, "check", one, true)
	a.ask(t, "release", one, true)
	b.ask(t, "acquire", one, true)
	b.ask(t, "release", one, true)
	b.ask(t, "release", two, true)
	if !loses {
		return
	}
	a.ask(t, "acquire", one, true)
	if err := exec.CommandContext(t.Context(), "redis-cli", "-u", url, "del", one).Run(); err != nil {
		t.Fatal(err)
	}
	b.ask(t, "acquire", one, true)
	a.ask(t, "renew", one, false)
	a.ask(t, "release", one, false)
	b.ask(t, "renew", one, true)
}

// Each example gives a lease to one owner.
func TestExamples(t *testing.T) {
	url := "redis://" + redistest.Start(t).Addr() + "/0"
	for name, argv := range map[string][]string{"python": {"python3", "lock.py"}, "sh": {"sh", "lock.sh"}, "node": {"node", "lock.mjs"}} {
		t.Run(name, func(t *testing.T) { play(t, url, true, argv...) })
	}
}

// So does each example that needs a compiler or a library.
func TestLibrariesLong(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and downloads")
	}
	url, bin := "redis://"+redistest.Start(t).Addr()+"/0", t.TempDir()
	for _, name := range []string{"redislock", "redsync", "rueidislock"} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(bin, name)
			build := exec.CommandContext(t.Context(), "go", "build", "-modfile=libraries.mod", "-o", program, name+".go")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			play(t, url, name == "redislock", program) // the others do not check each renewal
		})
	}
	t.Run("redis-py", func(t *testing.T) {
		if exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import redis").Run() != nil {
			t.Skip("not installed: python3-redis")
		}
		play(t, url, true, "/usr/bin/python3", "redispy.py")
	})
	compiled := func(compiler []string, argv ...string) {
		t.Run(compiler[0], func(t *testing.T) {
			if _, err := exec.LookPath(compiler[0]); err != nil {
				t.Skip("not installed: " + compiler[0])
			}
			if out, err := exec.CommandContext(t.Context(), compiler[0], compiler[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			play(t, url, true, argv...)
		})
	}
	compiled([]string{"rustc", "-o", filepath.Join(bin, "rust"), "lock.rs"}, filepath.Join(bin, "rust"))
	compiled([]string{"javac", "-d", bin, "lock.java"}, "java", "-cp", bin, "Lock")
}

var uncounted = regexp.MustCompile(`(?s)\nimport \(.*?\n\)|(?-s)(?m)^\s*(//|#!|# ).*$`)

// An adapter has at most 30 lines, without comments, blank lines and Go's imports.
func TestExamplesAreShort(t *testing.T) {
	names, err := filepath.Glob("*.*")
	names = slices.DeleteFunc(names, func(name string) bool {
		return strings.HasPrefix(name, "leases") || strings.HasPrefix(name, "libraries") || strings.HasSuffix(name, "_test.go")
	})
	if err != nil || len(names) != 14 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(uncounted.ReplaceAllString(string(text), "")) {
			n += min(len(strings.TrimSpace(line)), 1)
		}
		if n > 30 {
			t.Errorf("%s has %d lines", name, n)
		}
	}
}
