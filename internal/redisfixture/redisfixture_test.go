package redisfixture_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shell starts a script instead of a server.
func shell(script string) func(*os.File) (redisfixture.Program, error) {
	return func(log *os.File) (redisfixture.Program, error) {
		cmd := exec.Command("sh", "-c", script)
		cmd.Stdout = log
		return redisfixture.Run(cmd)
	}
}

func TestStartSaysWhyAServerDoesNot(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("bind: Address already in use\nReady\n"), 0o600); err != nil { // of an earlier start
		t.Fatal(err)
	}
	for script, want := range map[string]string{
		"echo one; echo two":                     "it ended: two",
		"echo bind: Address already in use":      redisfixture.ErrPortTaken.Error(),
		"echo one; while :; do sleep 0.01; done": "it is not ready",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := redisfixture.Start(ctx, log, "Ready", time.Minute, shell(script))
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", script, err, want)
		}
	}
}

// If a chosen port is taken before the start, another one is tried.
func TestFirstTriesOtherPorts(t *testing.T) {
	var tried []string
	err := redisfixture.First(func(addr string) error {
		if tried = append(tried, addr); len(tried) < 3 {
			return redisfixture.ErrPortTaken
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		return l.Close()
	})
	if err != nil || len(tried) != 3 {
		t.Errorf("%q: %v", tried, err)
	}
}
