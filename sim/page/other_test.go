package page

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/leasestorm/leasestorm/internal/heldtest"
)

// A run is made smaller for minutes. Who puts another folder in its place meanwhile has nothing written there.
func TestSmallerRunIsPutNowhereElse(t *testing.T) {
	dir, _ := saved(t, params(), nil)
	small, r := saved(t, params(), nil)
	if err := r.Save(small); err != nil {
		t.Fatal(err)
	}
	to, elsewhere := heldtest.Dir(t, dir), t.TempDir()
	if err := os.Rename(dir, dir+"-gone"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, dir); err != nil {
		t.Fatal(err)
	}
	if err := AddSmaller(to, heldtest.Dir(t, small)); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
		t.Errorf("%d files were written into another folder, %v", len(left), err)
	}
}

// Nor has who puts another folder in the place of the smaller one, or a link into it, anything read that is not the run's.
func TestSmallerRunIsReadNowhereElse(t *testing.T) {
	dir, _ := saved(t, params(), nil)
	small, r := saved(t, params(), nil)
	if err := r.Save(small); err != nil {
		t.Fatal(err)
	}
	from, elsewhere := heldtest.Dir(t, small), t.TempDir()
	secret := filepath.Join(elsewhere, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(small, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(small, small+"-gone"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(elsewhere, small); err != nil {
		t.Fatal(err)
	}
	if err := AddSmaller(heldtest.Dir(t, dir), from); err != nil {
		t.Fatal(err)
	}
	for name, there := range map[string]bool{"report.json": true, "secret": false, "link": false} {
		if _, err := os.Lstat(filepath.Join(dir, SmallerName, name)); (err == nil) != there {
			t.Errorf("%s was copied: want %v (%v)", name, there, err)
		}
	}
}

// A link in the place of the smallest run, which may lead to one that its maker could not read, is not shown; a folder is.
func TestSmallerRunIsShownFromItsFolderOnly(t *testing.T) {
	for name, put := range map[string]func(from, to string) error{"link": os.Symlink, "folder": os.Rename} {
		dir, r := saved(t, params(), nil)
		private, _ := saved(t, params(), nil)
		if err := errors.Join(r.Save(private), put(private, filepath.Join(dir, SmallerName))); err != nil {
			t.Fatal(err)
		}
		if m := build(heldtest.Dir(t, dir), r); (m.Smaller != nil) != (name == "folder") {
			t.Errorf("%s: the page shows it: %v", name, m.Smaller != nil)
		}
	}
}
