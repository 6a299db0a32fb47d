package container_test

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/containertest"
	"github.com/leasestorm/leasestorm/sim/container"
)

// impostor is a socket on which something answers that is no engine of this machine, or nothing at all.
func impostor(t *testing.T, handler http.Handler) string {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	if handler == nil {
		t.Cleanup(func() { _ = l.Close() })
	} else {
		s := &http.Server{Handler: handler}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { _ = s.Close() })
	}
	return "unix://" + filepath.Join(dir, "sock")
}

func says(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
}

func TestFindRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		host string
		want error
		says string
	}{
		"no socket":      {"unix:///nonexistent/engine.sock", container.ErrNoEngine, "start one, or set DOCKER_HOST"},
		"no address":     {"engine", container.ErrNoEngine, "DOCKER_HOST"},
		"silence":        {impostor(t, nil), container.ErrNoEngine, "within 2s"},
		"no engine":      {impostor(t, says(500, `{"message":"under repair"}`)), container.ErrNoEngine, "under repair"},
		"far away":       {"tcp://192.0.2.1:2375", container.ErrElsewhere, "192.0.2.1"},
		"another kernel": {impostor(t, says(200, `{"OSType":"linux","KernelVersion":"1.0-vm"}`)), container.ErrElsewhere, "1.0-vm"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DOCKER_HOST", c.host)
			start := time.Now()
			_, err := container.Find(t.Context())
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Find: %v, want %v that says %q, in one line", err, c.want, c.says)
			}
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// A user who may not use the engine: for a moment this process is nobody.
func TestFindWithoutPermission(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become nobody")
	}
	host := impostor(t, says(200, `{}`))
	if err := os.Chmod(strings.TrimPrefix(host, "unix://"), 0); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_HOST", host)
	if err := syscall.Setreuid(-1, 65534); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setreuid(-1, 0); err != nil {
			t.Fatal(err)
		}
	}()
	if _, err := container.Find(t.Context()); !errors.Is(err, container.ErrPermission) || !strings.Contains(err.Error(), "group docker") {
		t.Errorf("Find: %v, want ErrPermission that says what to do", err)
	}
}

func TestImageThatCannotBeUsed(t *testing.T) {
	e := containertest.Engine(t)
	told := 0
	err := e.Pull(t.Context(), "leasestorm.invalid/none:1", func(int64, int64) { told++ })
	if !errors.Is(err, container.ErrImage) || !strings.Contains(err.Error(), "leasestorm.invalid/none:1") || !strings.Contains(err.Error(), "name one that is") {
		t.Errorf("Pull: %v, want ErrImage that names it", err)
	}
	if there, err := e.Has(t.Context(), "leasestorm.invalid/none:1"); there || err != nil {
		t.Errorf("Has: %v, %v, want neither", there, err)
	}
}

func TestImageForAnotherPlatform(t *testing.T) {
	host := impostor(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := `{"OSType":"linux","KernelVersion":"` + container.Kernel() + `","Os":"linux","Arch":"amd64","Architecture":"arm64"}`
		says(200, body).ServeHTTP(w, r)
	}))
	t.Setenv("DOCKER_HOST", host)
	e, err := container.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Has(t.Context(), "redis:7"); !errors.Is(err, container.ErrPlatform) || !strings.Contains(err.Error(), "linux/arm64") {
		t.Errorf("Has: %v, want ErrPlatform that names it", err)
	}
}
