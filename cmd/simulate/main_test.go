package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"simulate": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  "testdata",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"refuses": refuses},
	})
}

// refuses runs simulate with the arguments and wants exit code 3, one line on standard error and nothing else.
func refuses(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! refuses")
	}
	err := ts.Exec("simulate", args...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitWrong {
		ts.Fatalf("simulate %q: got %v, want exit status %d", args, err, exitWrong)
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("simulate %q wrote to standard output: %s", args, out)
	}
	said := ts.ReadFile("stderr")
	if strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "simulate: ") {
		ts.Fatalf("simulate %q: want one line, got %q", args, said)
	}
}
