package writefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// What is written into a folder that is open stays there, also where a link to another one is put in its place.
func TestAnOpenFolderStaysTheSame(t *testing.T) {
	at := t.TempDir()
	run, moved, victim := filepath.Join(at, "run"), filepath.Join(at, "moved"), filepath.Join(at, "victim")
	for _, dir := range []string{run, victim} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d, err := OpenDir(run)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Same(); err != nil {
		t.Error(err)
	}
	if err := os.Rename(run, moved); err != nil {
		t.Fatal(err)
	}
	if err := d.Same(); !errors.Is(err, ErrReplaced) {
		t.Errorf("a folder that was moved: %v", err)
	}
	if err := os.Symlink(victim, run); err != nil {
		t.Fatal(err)
	}
	if err := d.Same(); !errors.Is(err, ErrReplaced) {
		t.Errorf("a folder in whose place is a link: %v", err)
	}
	for _, text := range []string{"old", "new"} {
		if err := d.Write("page", []byte(text)); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(filepath.Join(moved, "page")); string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if err := d.Write("../victim/page", []byte("x")); err == nil {
		t.Error("a name may leave the folder")
	}
	for dir, want := range map[string]int{victim: 0, moved: 1} {
		if files, err := os.ReadDir(dir); len(files) != want {
			t.Errorf("%s has %d files, %v", dir, len(files), err)
		}
	}
}

// What is written below the path of a folder that was made goes into that folder, whatever stands at its path meanwhile, and below the
// folders in it.
func TestAFolderThatWasMadeStaysTheSame(t *testing.T) {
	at := t.TempDir()
	run, moved, victim := filepath.Join(at, "run"), filepath.Join(at, "moved"), filepath.Join(at, "victim")
	d, err := NewDir(run, "logs")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewDir(run); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a folder that is there: %v", err)
	}
	logs := filepath.Join(victim, "logs")
	if err := errors.Join(os.Rename(run, moved), os.MkdirAll(logs, 0o755), os.Symlink(victim, run)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"page", "logs/node.log", "gone"} {
		if err := os.WriteFile(filepath.Join(victim, name), []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write := func(f *os.File, err error) error {
		if err == nil {
			_, err = f.WriteString("new")
			err = errors.Join(err, f.Close())
		}
		return err
	}
	again, err := OpenDir(run)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(Write(filepath.Join(run, "page"), []byte("new")), write(Append(filepath.Join(run, "logs", "node.log"))),
		write(Append(filepath.Join(run, "logs", "node.log"))), write(New(filepath.Join(run, "gone"))), Remove(filepath.Join(run, "gone")),
		again.Write("again", nil))
	if err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"page": "new", "logs/node.log": "newnew", "again": ""} {
		if text, err := os.ReadFile(filepath.Join(moved, name)); string(text) != want || err != nil {
			t.Errorf("%s is %q, %v", name, text, err)
		}
	}
	for _, name := range []string{"page", "logs/node.log", "gone"} {
		if text, err := os.ReadFile(filepath.Join(victim, name)); string(text) != "precious" {
			t.Errorf("%s elsewhere is %q, %v", name, text, err)
		}
	}
	if err := errors.Join(again.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	if err := Write(filepath.Join(run, "page"), []byte("new")); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(victim, "page")); string(text) != "new" || err != nil {
		t.Errorf("a folder that was given up is held still: %q, %v", text, err)
	}
}

// What is discarded is the folder that was made, whatever stands at its path by then.
func TestDiscardTakesNothingElse(t *testing.T) {
	for name, put := range map[string]func(path, elsewhere string) error{
		"nothing": func(path, _ string) error { return os.Rename(path, path+".moved") },
		"a folder": func(path, elsewhere string) error {
			return errors.Join(os.Rename(path, path+".moved"), os.Rename(elsewhere, path))
		},
		"a link": func(path, elsewhere string) error {
			return errors.Join(os.Rename(path, path+".moved"), os.Symlink(elsewhere, path))
		},
		"itself": func(string, string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, elsewhere := filepath.Join(dir, "run"), filepath.Join(dir, "elsewhere")
			if err := errors.Join(os.Mkdir(elsewhere, 0o700), os.WriteFile(filepath.Join(elsewhere, "work"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			d, err := NewDir(path, "logs")
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if err := errors.Join(d.Write("plan", []byte("x")), os.WriteFile(filepath.Join(path, "logs", "log"), nil, 0o600), put(path, elsewhere)); err != nil {
				t.Fatal(err)
			}
			_ = d.Discard() // where something else is there it says so
			left := 0
			_ = filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
				switch filepath.Base(p) {
				case "plan", "log":
					t.Errorf("%s is still there", p)
				case "work":
					left++
				}
				return err
			})
			if _, err := os.Stat(path); left != 1 || name == "itself" && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%d of the other folder's files are left; the path: %v", left, err)
			}
		})
	}
}

// A link in a folder that was made leads to nothing outside of it.
func TestAppendFollowsNoLinkOutOfTheFolder(t *testing.T) {
	at := t.TempDir()
	victim := filepath.Join(at, "victim")
	d, err := NewDir(filepath.Join(at, "run"), "logs")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	link := filepath.Join(at, "run", "logs", "node.log")
	if err := errors.Join(os.WriteFile(victim, nil, 0o600), os.Symlink(victim, link)); err != nil {
		t.Fatal(err)
	}
	if f, err := Append(link); err == nil {
		t.Errorf("%s was opened", f.Name())
	}
}
