package wasm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
)

// write writes a file of the test and returns its path.
func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBuildsOneFile(t *testing.T) {
	needsGo(t)
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "one.go"), "package main\n\nfunc main() { print(word) }\n")
	write(t, filepath.Join(dir, "other.go"), "this is not part of the program\n")
	extra := Overlay{filepath.Join(dir, "added.go"): []byte("package main\n\nconst word = \"added\"\n")}
	code, err := Build(context.Background(), path, extra)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Compile(context.Background(), code)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close(context.Background()) }()
	if sum := sha256.Sum256(code); m.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("it has the hash %s", m.SHA256)
	}
	w := startOn(t, m, "", 1)
	w.finish(t, 0, "added")
}

// A package of the overlay belongs to the user's module. Where the module lies does not matter.
func TestBuildsAModuleWithMore(t *testing.T) {
	needsGo(t)
	built := func() []byte {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "go.mod"), "module example.com/user\n")
		write(t, filepath.Join(dir, "main.go"), "package main\n\nfunc main() {}\n")
		code, err := Build(context.Background(), dir, Overlay{
			filepath.Join(dir, "more.go"):               []byte("package main\n\nimport \"example.com/user/added\"\n\nfunc init() { added.Say() }\n"),
			filepath.Join(dir, "added", "deep", "a.go"): []byte("package deep\n\nconst Word = \"deep\"\n"),
			filepath.Join(dir, "added", "a.go"): []byte("package added\n\nimport \"example.com/user/added/deep\"\n\n" +
				"func Say() { print(deep.Word) }\n"),
		})
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	if code := built(); !bytes.Equal(code, built()) {
		t.Error("the same program in two directories gives two modules")
	}
}

func TestErrorOfTheProgramIsTheGoCommands(t *testing.T) {
	needsGo(t)
	path := write(t, filepath.Join(t.TempDir(), "wrong.go"), "package main\n\nfunc main() { missing() }\n")
	_, err := Build(context.Background(), path, nil)
	const want = "# command-line-arguments\n./wrong.go:3:15: undefined: missing"
	if err == nil || err.Error() != want {
		t.Errorf("it says\n%v\nwant\n%s", err, want)
	}
	_, err = Build(context.Background(), filepath.Join(filepath.Dir(path), "nowhere"), nil)
	if err == nil {
		t.Error("a directory that is missing was built")
	}
}

// A library is a package that builds, but not into a program.
func TestLibraryIsNoProgram(t *testing.T) {
	needsGo(t)
	path := write(t, filepath.Join(t.TempDir(), "library.go"), "package library\n")
	if _, err := Build(context.Background(), path, nil); err == nil || !strings.Contains(err.Error(), "library.go is not a program: its package is not main") {
		t.Errorf("it says %v", err)
	}
}

// The go command downloads toolchains into the cache of modules, of which it replaces no file.
func TestBuildsWithADownloadedToolchain(t *testing.T) {
	needsGo(t)
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	downloaded := filepath.Join(cache, "toolchain")
	if err := os.Symlink(strings.TrimSpace(string(root)), downloaded); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOMODCACHE", cache)
	t.Setenv("GOROOT", downloaded)
	path := write(t, filepath.Join(t.TempDir(), "one.go"), "package main\n\nfunc main() {}\n")
	if _, err := Build(context.Background(), path, nil); err != nil {
		t.Error(err)
	}
}

func TestOtherGoVersionIsNamed(t *testing.T) {
	root := t.TempDir()
	for _, p := range patches {
		path := filepath.Join(root, "src", filepath.FromSlash(p.file))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, "package changed\n")
	}
	_, err := patched(root, "go1.99")
	const want = "go1.99 has another net/net_fake.go than expected, so it cannot build for virtual time; go1.25.5 and go1.26.8 can"
	if err == nil || err.Error() != want {
		t.Errorf("it says\n%v\nwant\n%s", err, want)
	}
}

func TestOtherModulesAreRefused(t *testing.T) {
	needsGo(t)
	code, err := built()
	if err != nil {
		t.Fatal(err)
	}
	for name, module := range map[string][]byte{
		"empty":     nil,
		"text":      []byte("this is no module of WebAssembly, but text"),
		"no code":   []byte("\x00asm\x01\x00\x00\x00"),
		"shortened": code[:len(code)/2],
	} {
		if _, err := compile(context.Background(), module, wazero.NewRuntimeConfig(), nil); err == nil {
			t.Errorf("%s: it was compiled", name)
		}
	}
}

func TestOldCodeLeavesTheCache(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := filepath.Join(cacheDir(), "version")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "new"), "")
	old := write(t, filepath.Join(dir, "old"), "")
	long := time.Now().Add(-cacheAge - time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	cacheDir()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "new" {
		t.Errorf("left are %v, %v", left, err)
	}
}
