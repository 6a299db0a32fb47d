package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leasestorm/leasestorm/sim/mutant"
	"github.com/leasestorm/leasestorm/sim/report"
	"github.com/leasestorm/leasestorm/sim/virtual"
	"github.com/leasestorm/leasestorm/sim/virtual/virtualtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"simulate": main, "mutant": mutated, "broken": broken, "crashing": crashing})
}

// broken is a simulator whose virtual instances do not notice a failed renewal. It exits like simulate, except for the expected verdict of
// fail.
func broken() {
	if code, ok := hiddenMode(os.Args); ok {
		os.Exit(code) // a sound node of the real engine
	}
	bend = virtualtest.DeafToFailure
	if code := execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr); code != exitFail {
		os.Exit(code)
	}
}

// mutated is a simulator whose virtual instances are the mutant that MUTANT names (scripts/canary).
func mutated() {
	m, err := mutant.Named(os.Getenv("MUTANT"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitWrong)
	}
	bend = m.Bend
	main()
}

// crashing is a simulator that crashes as soon as it runs a storm in virtual time.
func crashing() {
	bend = func(*virtual.Config) { panic("bent too far") }
	main()
}

func TestScripts(t *testing.T) { scripts(t, "testdata") }

// TestScriptsLong plays whole storms on the real engine.
func TestScriptsLong(t *testing.T) {
	if testing.Short() {
		t.Skip("storms on the real engine: make long plays them")
	}
	scripts(t, "testdata/long")
}

func scripts(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir:       dir,
		Condition: condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"refuses": refuses, "ends": ends, "interrupts": interrupts, "truncate": truncate,
			"stops": stops, "killed": killed, "sums": sums,
			"foreign": foreign, "crashes": crashes, "escaped": escaped,
		},
	})
}

// condition reports to scripts whether there is a redis-server. CI must have one.
func condition(name string) (bool, error) {
	if name != "redis" {
		return false, errors.New("unknown condition " + name)
	}
	_, err := exec.LookPath("redis-server")
	if err != nil && os.Getenv("CI") == "true" {
		return false, err
	}
	return err == nil, nil
}

// refuses runs simulate with the arguments and wants exit code 3, one line on standard error and nothing else.
func refuses(ts *testscript.TestScript, neg bool, args []string) {
	ends(ts, neg, append([]string{strconv.Itoa(exitWrong)}, args...))
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("simulate %q wrote to standard output: %s", args, out)
	}
	said := ts.ReadFile("stderr")
	if strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "simulate: ") {
		ts.Fatalf("simulate %q: want one line, got %q", args, said)
	}
}

// ends runs simulate and wants an exit code, its first argument.
func ends(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: ends code arguments...")
	}
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec("simulate", args[1:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("simulate %q: exit code %d, want %s", args[1:], code, args[0])
	}
}

// interruptedWithin is how long a run may take to end after Ctrl-C, judging included, on a busy machine.
const interruptedWithin = 5 * time.Second

// interrupts runs simulate, interrupts it when its nodes work, and writes its output to stdout.txt. It wants exit code 2 soon after.
func interrupts(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: interrupts arguments...")
	}
	path, err := exec.LookPath("simulate")
	ts.Check(err)
	cmd := exec.Command(path, args...)
	cmd.Dir = ts.Getenv("WORK")
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	var stdout strings.Builder
	cmd.Stdout = &stdout
	ts.Check(cmd.Start())
	begin := time.Now()
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if strings.Contains(lines.Text(), " storm ") {
			begin = time.Now()
			ts.Check(cmd.Process.Signal(os.Interrupt))
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitUnknown {
		ts.Fatalf("interrupted run ended with %v, want exit code %d\n%s", err, exitUnknown, stdout.String())
	}
	if took := time.Since(begin); took > interruptedWithin {
		ts.Fatalf("interrupted run took %v to end", took)
	}
	ts.Check(os.WriteFile(filepath.Join(cmd.Dir, "stdout.txt"), []byte(stdout.String()), 0o600))
}

// truncate cuts a file to a size in bytes.
func truncate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: truncate file size")
	}
	size, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), size))
}

// foreign replaces a file of a run's folder by one that simulate did not write.
func foreign(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: foreign kind file")
	}
	file := ts.MkAbs(args[1])
	if err := os.Remove(file); !errors.Is(err, os.ErrNotExist) {
		ts.Check(err)
	}
	switch args[0] {
	case "fifo":
		ts.Check(syscall.Mkfifo(file, 0o600))
	case "large":
		ts.Check(os.WriteFile(file, nil, 0o600))
		ts.Check(os.Truncate(file, 20<<30)) // a hole: nothing is written
	case "bomb":
		ts.Check(packed(file, func(w io.Writer) { _, _ = w.Write(make([]byte, 64<<20)) }))
	case "escapes":
		r, err := report.Load(ts.MkAbs("whole"))
		ts.Check(err)
		r.Commit = "\x1b[2J"
		ts.Check(r.Save(filepath.Dir(file)))
	default:
		ts.Fatalf("no such kind")
	}
}

// packed writes a compressed file.
func packed(file string, write func(io.Writer)) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zstd.NewWriter(f)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(z, 1<<20)
	write(b)
	return errors.Join(b.Flush(), z.Close())
}

// escaped runs simulate with an argument that would clear the screen, and wants it refused in plain text.
func escaped(ts *testscript.TestScript, neg bool, args []string) {
	const clears = "\x1b[2J\u009b2J"
	refuses(ts, neg, append(args, clears))
	if said := ts.ReadFile("stderr"); strings.ContainsAny(said, "\x1b\u009b") || !strings.Contains(said, "[2J") {
		ts.Fatalf("simulate %q: %q", args, said)
	}
}

// crashes runs a program that panics, and wants it to end by a signal, because an exit code would look like a verdict.
func crashes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: crashes program arguments...")
	}
	var exit *exec.ExitError
	if err := ts.Exec(args[0], args[1:]...); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		ts.Fatalf("%v, want a signal", err)
	}
}

// sums updates the checksums in a saved run's report, as somebody who edits the folder can.
func sums(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sums dir")
	}
	dir := ts.MkAbs(args[0])
	r, err := report.Load(dir)
	ts.Check(err)
	files, err := report.ReadFiles(dir)
	ts.Check(err)
	maps.Copy(r.Sums, files.Sums())
	ts.Check(r.Save(dir))
}

// killed runs simulate on the real engine and kills it as soon as the growing history has an event of a node.
func killed(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: killed arguments...")
	}
	path, err := exec.LookPath("simulate")
	ts.Check(err)
	cmd := exec.Command(path, args...)
	cmd.Dir = ts.Getenv("WORK")
	ts.Check(cmd.Start())
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 1200 {
		<-tick.C
		files, err := filepath.Glob(ts.MkAbs("reports/*/history.partial.jsonl"))
		ts.Check(err)
		if len(files) == 1 {
			if text, err := os.ReadFile(files[0]); err == nil && bytes.Contains(text, []byte(`"acquired"`)) {
				break
			}
		}
	}
	ts.Check(cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
}

// stops runs an exploration, interrupts it as soon as it shows progress, and wants exit code 2. stopped.txt has its standard output.
func stops(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: stops arguments...")
	}
	path, err := exec.LookPath("simulate")
	ts.Check(err)
	cmd := exec.Command(path, args...)
	cmd.Dir = ts.Getenv("WORK")
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	lines := bufio.NewScanner(stderr)
	lines.Scan()
	ts.Check(cmd.Process.Signal(os.Interrupt))
	for lines.Scan() {
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitUnknown {
		ts.Fatalf("interrupted exploration ended with %v, want exit code %d", err, exitUnknown)
	}
	ts.Check(os.WriteFile(ts.MkAbs("stopped.txt"), stdout.Bytes(), 0o600))
}

// The help of a command begins with a verb.
func TestHelpBeginsWithAVerb(t *testing.T) {
	verbs := strings.Fields("Add Break Check Compare Judge List Make Open Run Search Serve Show Start Write")
	root := newRoot()
	for _, c := range append(root.Commands(), root) {
		for _, text := range []string{c.Short, c.Long} {
			if first, _, _ := strings.Cut(text, " "); text != "" && !slices.Contains(verbs, strings.TrimRight(first, ",")) {
				t.Errorf("the help of %s begins with %q, which is no verb of the list", c.Name(), first)
			}
		}
	}
}
