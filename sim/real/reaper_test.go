package real

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pipeOf keeps what a reaper is told.
type pipeOf struct{ bytes.Buffer }

func (*pipeOf) Close() error { return nil }

// Whatever a path holds, that folder is removed and no other.
func TestReaperRemovesWhatItIsTold(t *testing.T) {
	root := t.TempDir()
	others := filepath.Join(root, "others")
	var mine []string
	for _, name := range []string{
		"plain", "two words", `"quoted"`, "\xff\x1b[31m", "line\n+ dir " + others + "\n+ dir ", strings.Repeat("long/", 700) + "end",
	} {
		mine = append(mine, filepath.Join(root, name))
	}
	kept := filepath.Join(root, "dropped\n- dir x")
	for _, dir := range append(slices.Clone(mine), others, kept) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var pipe pipeOf
	r := &reaper{pipe: &pipe}
	for _, dir := range append(slices.Clone(mine), kept) {
		r.add(reapDir, dir)
	}
	r.drop(reapDir, kept)
	pipe.WriteString(`+ dir "` + others + `"`) // the simulator was killed in the middle of it
	reap(&pipe)
	for _, dir := range mine {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%q is left (%v)", dir, err)
		}
	}
	for _, dir := range []string{others, kept} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("%q was not to be removed: %v", dir, err)
		}
	}
}

// A port that the reaper holds is nobody else's while there is a reaper, though who had it is gone.
func TestReaperHoldsPorts(t *testing.T) {
	r, err := startReaper()
	if err != nil {
		t.Fatal(err)
	}
	dirs := []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
	var ports []string
	for _, dir := range dirs {
		l, err := newLine("node-1", loopback, endpoint{}, 1, 1, func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Mkdir(dir, 0o700), r.hold(l.gate.listener)); err != nil {
			t.Fatal(err)
		}
		r.add(reapDir, dir)
		ports = append(ports, l.addr())
		l.close()
	}
	for _, at := range ports {
		if l, err := net.Listen("tcp", at); err == nil {
			_ = l.Close()
			t.Errorf("%s was free", at)
		}
	}
	r.close()
	for i, at := range ports {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Errorf("without a reaper: %v", err)
			continue
		}
		_ = l.Close()
		if _, err := os.Stat(dirs[i]); !os.IsNotExist(err) {
			t.Errorf("%s is left (%v)", dirs[i], err)
		}
	}
}

// The reaper works in another folder than who names them.
func TestFolderOfRedisIsAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("tmp", 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", "tmp")
	for _, dir := range []string{"", "tmp"} {
		if folder, err := new(Redis).folder(dir); err != nil || !filepath.IsAbs(folder) {
			t.Errorf("folder in %q: %q (%v)", dir, folder, err)
		}
	}
}
