package wasm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Overlay are files that the go command sees in addition to those on disk, or instead of them. A key is an absolute path.
type Overlay map[string][]byte

// Build compiles the Go program of a directory, or of a single .go file, and returns a module for Compile. The go command of the PATH
// builds it as it would in that directory, and its text is the error of a program that does not compile. In the module, package net
// connects through the Host, and os/signal receives the signals of the Program. Nothing on disk changes.
func Build(ctx context.Context, path string, extra Overlay) ([]byte, error) {
	dir, files, err := target(path, extra)
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "leasestorm-wasm-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	root, version, err := goroot(ctx, dir, temp)
	if err != nil {
		return nil, err
	}
	library, err := patched(root, version)
	if err != nil {
		return nil, err
	}
	overlay, err := saveOverlay(temp, library, extra)
	if err != nil {
		return nil, err
	}
	out := filepath.Join(temp, "program.wasm")
	args := append([]string{"build", "-overlay", overlay, "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", out}, files...)
	if _, err := goCommand(ctx, dir, root, args...); err != nil {
		return nil, err
	}
	module, err := os.ReadFile(out)
	if err == nil && !bytes.HasPrefix(module, []byte("\x00asm")) {
		return nil, fmt.Errorf("%s is not a program: its package is not main", path)
	}
	return module, err
}

// target returns the directory in which to build, and what. A package of named files consists of these alone.
func target(path string, extra Overlay) (dir string, files []string, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", nil, err
	}
	if !strings.HasSuffix(path, ".go") {
		return path, []string{"."}, nil
	}
	dir, files = filepath.Dir(path), []string{path}
	for name := range extra {
		if filepath.Dir(name) == dir && strings.HasSuffix(name, ".go") {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return dir, files, nil
}

// saveOverlay writes the files and the list of them, and returns the path of the list.
func saveOverlay(temp string, overlays ...Overlay) (string, error) {
	list := struct{ Replace map[string]string }{map[string]string{}}
	for _, o := range overlays {
		for path, text := range o {
			saved := filepath.Join(temp, strconv.Itoa(len(list.Replace))+"-"+filepath.Base(path))
			if err := os.WriteFile(saved, text, 0o600); err != nil {
				return "", err
			}
			list.Replace[path] = saved
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	path := filepath.Join(temp, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// goroot returns the GOROOT and the Go version that build in dir. The go command replaces no file of a toolchain that it has downloaded, so
// such a GOROOT gets another name in temp.
func goroot(ctx context.Context, dir, temp string) (root, version string, err error) {
	said, err := goCommand(ctx, dir, "", "env", "GOROOT", "GOVERSION", "GOMODCACHE")
	if err != nil {
		return "", "", err
	}
	lines := strings.Split(said, "\n")
	if len(lines) < 3 {
		return "", "", fmt.Errorf("go env says %q", said)
	}
	root, version = lines[0], lines[1]
	if !strings.HasPrefix(root, lines[2]+string(filepath.Separator)) {
		return root, version, nil
	}
	link := filepath.Join(temp, "goroot")
	return link, version, os.Symlink(root, link)
}

// goCommand returns the output of the go command for WebAssembly, or an error with what it said. An empty root is that of the PATH.
func goCommand(ctx context.Context, dir, root string, args ...string) (string, error) {
	name, env := "go", append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "PWD="+dir)
	if root != "" {
		name, env = filepath.Join(root, "bin", "go"), append(env, "GOROOT="+root, "GOTOOLCHAIN=local")
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = env
	cmd.Dir = dir
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("the go command, which builds the program, is not installed: %w", err)
	}
	if text := strings.TrimSpace(said.String()); err != nil && text != "" {
		return "", errors.New(text)
	}
	return out.String(), err
}
