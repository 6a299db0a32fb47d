package process

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pipeOf collects the input of a reaper.
type pipeOf struct{ bytes.Buffer }

func (*pipeOf) Close() error { return nil }

// The reaper removes exactly the named folder, whatever its path contains.
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
	r := &Reaper{pipe: &pipe}
	for _, dir := range append(slices.Clone(mine), kept) {
		r.Add("dir", dir)
	}
	r.Drop("dir", kept)
	pipe.WriteString(`+ dir "` + others + `"`) // the simulator was killed while writing
	reap(&pipe, []Cleaner{{"dir", func(dir string) { _ = os.RemoveAll(dir) }}})
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
