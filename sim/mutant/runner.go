package mutant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// State is what became of a mutant.
type State string

// The states. Only Killed is good.
const (
	Killed   State = "killed"
	Survived State = "SURVIVED"
	Wrong    State = "WRONG GUARANTEE"
	Failed   State = "NOT RUN"
)

// Result is one mutant, hunted.
type Result struct {
	Mutant
	State State
	Catch Catch
	Took  time.Duration
	Err   error
}

// Runner builds and hunts mutants.
type Runner struct {
	Root   string // of the module, absolute
	Dir    string // for what is built, absolute
	Shrink bool   // look for the smallest plan of each

	reader sync.Once // builds the hunter that reads its scripts
	err    error

	mu    sync.Mutex
	tests map[string]bool // packages whose tests are built to read their scripts
}

// Run hunts one mutant.
func (r *Runner) Run(ctx context.Context, m Mutant) Result {
	begin := time.Now()
	res := Result{Mutant: m}
	dir, err := os.MkdirTemp(r.Dir, m.Name+"-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = r.hunt(ctx, &res, dir)
	}
	res.Took = time.Since(begin)
	switch {
	case err != nil:
		res.State, res.Err = Failed, err
	case len(res.Catch.Broke) == 0:
		res.State = Survived
	case !slices.Contains(res.Catch.Broke, m.Breaks):
		res.State = Wrong
	case res.Catch.Problem != "":
		res.State, res.Err = Failed, errors.New(res.Catch.Problem)
	default:
		res.State = Killed
	}
	return res
}

func (r *Runner) hunt(ctx context.Context, res *Result, dir string) error {
	overlay, err := res.Overlay(r.Root, dir)
	if err != nil {
		return err
	}
	seen := filepath.Join(dir, "marked")
	switch {
	case res.Test != "" && res.onlyScripts() && !res.Marked():
		res.Catch, err = r.testScript(ctx, res.Mutant, dir)
	case res.Test != "":
		res.Catch, err = r.test(ctx, res.Mutant, overlay, markEnv+"="+seen)
	default:
		res.Catch, err = r.virtual(ctx, res.Mutant, overlay, dir, markEnv+"="+seen)
	}
	if err == nil && res.Marked() {
		if _, err = os.Stat(seen); errors.Is(err, fs.ErrNotExist) {
			err = errUnseen
		}
	}
	return err
}

var errUnseen = errors.New("its mark was never seen: what is changed did not run")

// build builds a program of the module with the overlay, "" for none.
func (r *Runner) build(ctx context.Context, overlay, pkg, out string) error {
	args := []string{"build", "-ldflags=-s -w", "-o", out}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	_, err := r.command(ctx, nil, "go", append(args, pkg)...)
	return err
}

// command runs a command in the module and returns its standard output; an error has what it said.
func (r *Runner) command(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = r.Root
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(stderr.String() + "\n" + stdout.String())
		return stdout.Bytes(), fmt.Errorf("%s %s: %w: %s", filepath.Base(name), args[0], err, tail(said, 2000))
	}
	return stdout.Bytes(), nil
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

func (r *Runner) virtual(ctx context.Context, m Mutant, overlay, dir, mark string) (Catch, error) {
	hunter, env, err := r.hunter(ctx, m, overlay, dir)
	if err != nil {
		return Catch{}, err
	}
	o := Order{Scenario: m.Scenario, Seeds: m.Seeds, Lua: m.scripts(), Reports: filepath.Join(dir, "reports")}
	if r.Shrink && m.Drop.Script == "" {
		o.Shrink = m.Breaks
	}
	return r.send(ctx, hunter, append(env, mark), o)
}

// send gives a hunter its order and waits for what it finds.
func (r *Runner) send(ctx context.Context, hunter string, env []string, o Order) (Catch, error) {
	order, err := json.Marshal(o)
	if err != nil {
		return Catch{}, err
	}
	cmd := exec.CommandContext(ctx, hunter)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = bytes.NewReader(order)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return Catch{}, fmt.Errorf("%w: %s", err, tail(strings.TrimSpace(stderr.String()), 2000))
	}
	var c Catch
	return c, json.Unmarshal(stdout.Bytes(), &c)
}

// hunter builds the mutant's hunter. Mutants of scripts share one, which reads its scripts when it starts.
func (r *Runner) hunter(ctx context.Context, m Mutant, overlay, dir string) (path string, env []string, err error) {
	const pkg = "./sim/mutant/hunt"
	if m.onlyScripts() {
		path, err = r.scriptHunter(ctx)
		return path, []string{readerEnv + "=" + dir}, err
	}
	path = filepath.Join(dir, "hunt")
	return path, nil, r.build(ctx, overlay, pkg, path)
}

// scriptHunter is the hunter of all mutants of scripts. In a folder without scripts it runs those that are embedded.
func (r *Runner) scriptHunter(ctx context.Context) (string, error) {
	path := filepath.Join(r.Dir, "hunt-scripts")
	r.reader.Do(func() {
		var files map[string]string
		if files, r.err = readers(r.Root); r.err != nil {
			return
		}
		var added string
		if added, r.err = overlayOf(files, r.Dir); r.err == nil {
			r.err = r.build(ctx, added, "./sim/mutant/hunt", path)
		}
	})
	return path, r.err
}

// testScript is test of what changes scripts alone: they share one program too.
func (r *Runner) testScript(ctx context.Context, m Mutant, dir string) (Catch, error) {
	program, err := r.testProgram(ctx, m.Package)
	if err != nil {
		return Catch{}, err
	}
	out, err := r.command(ctx, []string{readerEnv + "=" + dir}, "env", "-C", m.Package, program, "-test.v", "-test.timeout=3m",
		"-test.run=^"+m.Test+"$")
	return m.tested(out, err)
}

// testProgram builds a package's tests so that they read their scripts.
func (r *Runner) testProgram(ctx context.Context, pkg string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	program := filepath.Join(r.Dir, strings.ReplaceAll(pkg, "/", "-")+".test")
	if r.tests[pkg] {
		return program, nil
	}
	dir, err := os.MkdirTemp(r.Dir, "tests-")
	if err != nil {
		return "", err
	}
	files, err := readers(r.Root)
	if err != nil {
		return "", err
	}
	added, err := overlayOf(files, dir)
	if err == nil {
		_, err = r.command(ctx, nil, "go", "test", "-c", "-vet=off", "-overlay", added, "-o", program, "./"+pkg)
	}
	if err == nil {
		if r.tests == nil {
			r.tests = map[string]bool{}
		}
		r.tests[pkg] = true
	}
	return program, err
}

// test runs the mutant's test. One that fails has caught it, by the guarantee that its signature names.
func (r *Runner) test(ctx context.Context, m Mutant, overlay, mark string) (Catch, error) {
	args := []string{"test", "-count=1", "-vet=off", "-timeout=3m", "-run", "^" + m.Test + "$"}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	out, err := r.command(ctx, []string{mark}, "go", append(args, "./"+m.Package)...)
	return m.tested(out, err)
}

// tested is what a test's output says.
func (m *Mutant) tested(out []byte, err error) (Catch, error) {
	var exit *exec.ExitError
	switch failed := bytes.Contains(out, []byte("--- FAIL: "+m.Test)); {
	case err == nil && bytes.Contains(out, []byte("no tests to run")):
		return Catch{}, fmt.Errorf("%s has no test %s", m.Package, m.Test)
	case err == nil:
		return Catch{}, nil
	case errors.As(err, &exit) && failed:
		return Catch{Broke: []string{m.Breaks}, Detail: tail(string(out), 600)}, nil
	}
	return Catch{}, err
}
