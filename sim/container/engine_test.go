package container_test

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasestorm/leasestorm/sim/container"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// If no engine answers, one line says so soon.
func TestNoEngine(t *testing.T) {
	silent, err := net.Listen("unix", filepath.Join(t.TempDir(), "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for host, says := range map[string]string{
		"unix:///nonexistent/engine.sock":  "/nonexistent/engine.sock",
		"engine":                           "DOCKER_HOST",
		"unix://" + silent.Addr().String(): "deadline exceeded",
	} {
		t.Setenv("DOCKER_HOST", host)
		_, err := container.Find(t.Context(), func(error) {})
		if !errors.Is(err, container.ErrNoEngine) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("at %s: %v, want ErrNoEngine that says %q in one line", host, err, says)
		}
	}
}
