package leases

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// simulator builds simulate.
func simulator(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "simulate")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/simulate").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// An adapter in Go runs in virtual time too, and in the same way for the same seed. That of redislock has two owners, unless it is asked
// before each poll.
func TestVirtualTimeLong(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and downloads")
	}
	simulate := simulator(t)
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -modfile=libraries.mod")
	play := func(adapter string, code int) []byte {
		t.Helper()
		reports := t.TempDir()
		storm := exec.CommandContext(t.Context(), simulate, "--engine", "virtual", "--scenario", "locks", "--seed", "1", "--quiet",
			"--report", reports, "--lease-go", adapter)
		out, _ := storm.CombinedOutput()
		if got := storm.ProcessState.ExitCode(); got != code {
			t.Fatalf("%s: exit code %d, want %d: %s", adapter, got, code, out)
		}
		text, err := os.ReadFile(filepath.Join(reports, "locks-1", "history.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if !bytes.Equal(play("redislock.go", 1), play("redislock.go", 1)) {
		t.Error("the same seed gives two histories")
	}
	play("--check redislock.go", 0)
}
