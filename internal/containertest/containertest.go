// Package containertest finds the container engine for tests. Only tests may import it.
package containertest

import (
	"os"
	"os/exec"
	"testing"

	"github.com/leasestorm/leasestorm/sim/container"
)

// Engine returns the engine of this machine. Without one it skips the test, or fails it if CI=true.
func Engine(t testing.TB) *container.Engine {
	t.Helper()
	e, err := container.Find(t.Context(), func(error) {})
	for tries := 0; err != nil && os.Getenv("CI") == "true"; tries++ { // an engine may be slow in CI
		if tries == 15 {
			t.Fatal(err)
		}
		e, err = container.Find(t.Context(), func(error) {})
	}
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// Redis returns an image of this machine's redis-server. Without one it skips the test, or fails it if CI=true.
func Redis(t testing.TB, e *container.Engine) string {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	image, err := e.Build(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	return image
}
