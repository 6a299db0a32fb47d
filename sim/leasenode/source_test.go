package leasenode

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// An adapter must be in a module.
func TestOverlayWithoutModule(t *testing.T) {
	if _, err := Overlay(t.Context(), t.TempDir()); err == nil {
		t.Error("no error")
	}
}

// A Go adapter, in a file or in a directory, becomes a node for wasip1, whatever its module's version of Go.
func TestOverlayCompilesLong(t *testing.T) {
	if testing.Short() {
		t.Skip("downloads and builds")
	}
	old := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module example.com/old\n\ngo 1.17\n",
		"main.go": "package main\n\nfunc main() { select {} }\n",
	} {
		if err := os.WriteFile(filepath.Join(old, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	examples, err := filepath.Abs("../../examples/leases")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		adapter, dir string
		args         []string
	}{
		{old, old, []string{"."}},
		{filepath.Join(examples, "redislock.go"), examples, []string{"-modfile=libraries.mod", "redislock.go", MainFile}},
	} {
		added, err := Overlay(t.Context(), c.adapter)
		if err != nil {
			t.Fatal(err)
		}
		tmp, replace := t.TempDir(), map[string]string{}
		for path, text := range added {
			replace[path] = filepath.Join(tmp, filepath.Base(path))
			if err := os.WriteFile(replace[path], text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		list, _ := json.Marshal(map[string]any{"Replace": replace}) // cannot fail
		if err := os.WriteFile(filepath.Join(tmp, "list"), list, 0o600); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"build", "-overlay", filepath.Join(tmp, "list"), "-o", filepath.Join(tmp, "wasm")}, c.args...)
		build := exec.CommandContext(t.Context(), "go", args...)
		build.Dir, build.Env = c.dir, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("%q: %v: %s", c.args, err, out)
		}
	}
}
