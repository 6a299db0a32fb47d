// Package heldtest opens folders for tests.
package heldtest

import (
	"testing"

	"github.com/leasestorm/leasestorm/internal/writefile"
)

// Dir is the folder at a path, held until the test ends.
func Dir(t testing.TB, path string) *writefile.Dir {
	t.Helper()
	d, err := writefile.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}
