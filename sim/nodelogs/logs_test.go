package nodelogs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log that is too large is not read, so its node is not judged by it.
func TestLogsTooLargeAreNotRead(t *testing.T) {
	const entry = `{"ts":1.5,"event":"acquired","instance":"i","endpoint":"s","fence":7}` + "\n"
	run := t.TempDir()
	dir := filepath.Join(run, "logs")
	for name, size := range map[string]int64{"node-1": logMax + 1, "node-2": int64(len(entry))} {
		file := filepath.Join(dir, name+logSuffix)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(file, []byte(entry), 0o600), os.Truncate(file, size)); err != nil {
			t.Fatal(err)
		}
	}
	l := Read(run, "logs")
	if l.Err() != nil || l.Entries() != 1 || !l.Blind("node-1") || l.Blind("node-2") {
		t.Errorf("%d entries, %v: want that of node-2 alone", l.Entries(), l.Err())
	}
}

func TestLinesOfAnyLength(t *testing.T) {
	var got []string
	err := lines(strings.NewReader("a\n"+strings.Repeat("x", 200<<10)+"\nb"), func(line []byte) {
		got = append(got, strings.TrimSpace(string(line)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[0] != "a" || got[2] != "b" {
		t.Errorf("%d lines: %.10q", len(got), got)
	}
}
