package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// canary is part of each password. No output and no file of a run may contain it.
const canary = "c4n4ry"

// quietly returns a function that runs the program and checks that it never prints the password, and the program's folder.
func quietly(t *testing.T) (quiet func(code int, env []string, args ...string), dir string) {
	dir = t.TempDir()
	program := filepath.Join(dir, "simulate") // by this name it is the simulator, and its nodes too
	exe, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(program, exe, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "password"), []byte(canary+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func(code int, env []string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		var all bytes.Buffer
		cmd.Stdout, cmd.Stderr = &all, &all
		_ = cmd.Run() // the exit code has the error
		if got := cmd.ProcessState.ExitCode(); got != code || strings.Contains(all.String(), canary) || all.Len() == 0 {
			t.Errorf("%v, %v: exit %d, want %d: %s", env, args, got, code, all.String())
		}
	}, dir
}

var inEnvironment = []string{"LEASESTORM_REDIS_PASSWORD=" + canary}

// No command prints a password, whatever its source.
func TestPasswordIsNeverPrinted(t *testing.T) {
	server := redistest.Start(t, redistest.Password(canary))
	quiet, dir := quietly(t)
	file := filepath.Join(dir, "password")
	right, bare := "redis://:c4n4ry@"+server.Addr(), "redis://"+server.Addr()
	for _, args := range []string{"--help", "check --help", "replay --help", "shrink --help", "scenarios"} {
		quiet(exitPass, inEnvironment, strings.Fields(args)...)
	}
	for _, raw := range []string{
		right + "1", "redis://:c4n4ry@127.0.0.1:1", "rediss://:c4n4ry@127.0.0.1:1", "redis://u:c4n4ry@h:port", "redis:/u:c4n4ry@h",
		"u:c4n4ry@h",
	} {
		for _, args := range []string{"--quiet", "--engine virtual", "--seeds 1-2", "replay 1", "replay none", "shrink 1", "--nodes 0"} {
			quiet(exitWrong, nil, append(strings.Fields(args), "--redis", raw)...)
		}
		if raw != "u:c4n4ry@h" { // that one looks like nothing that has a password
			quiet(exitWrong, nil, raw)
			quiet(exitWrong, nil, "replay", raw)
			quiet(exitWrong, nil, "check", raw)
			quiet(exitWrong, nil, "-redis="+raw)
		}
	}
	quiet(exitWrong, nil, "--redis", bare, "--redis-password-file", file+"2")
	quiet(exitWrong, nil, "--redis-password-file", file)
}

// Nor does the folder of a run contain it.
func TestNoRunHoldsAPasswordLong(t *testing.T) {
	if testing.Short() {
		t.Skip("storms on the real engine: make long plays them")
	}
	server := redistest.Start(t, redistest.Password(canary))
	quiet, dir := quietly(t)
	right, bare := "redis://:c4n4ry@"+server.Addr(), "redis://"+server.Addr()
	storm := []string{"--nodes", "1", "--sessions", "1", "--duration", "3s", "--faults", "crash", "--criteria", "G12", "--seed", "5"}
	quiet(exitPass, nil, append(storm, "--redis", right)...)
	quiet(exitPass, inEnvironment, append(storm, "--redis", bare)...)
	quiet(exitPass, nil, append(storm, "--redis", bare, "--redis-password-file", "password")...)
	quiet(exitPass, nil, "check", "reports/storm-5")
	quiet(exitPass, inEnvironment, append(storm, "--redis", "server")...)
	files := 0
	err := filepath.WalkDir(filepath.Join(dir, "reports"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(canary)) {
			t.Errorf("%s holds the password", path)
		}
		return err
	})
	if err != nil || files < 4*5 {
		t.Errorf("%d files, %v", files, err)
	}
}
