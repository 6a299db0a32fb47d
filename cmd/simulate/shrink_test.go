package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/leasestorm/leasestorm/internal/writefile"
)

// While a run is made smaller, which takes minutes, somebody who may rename its folder puts another run, of this user's, in its place.
func TestSmallerRunIsShownWhereItWasReadOnly(t *testing.T) {
	dir := t.TempDir()
	for _, seed := range []string{"1", "2", "3"} {
		if e := play(t, dir, "simulate", "--engine", "virtual", "--nodes", "2", "--sessions", "2", "--duration", "20s", "--seed", seed,
			"--faults", "crash", "--quiet", "--no-html"); e.code >= exitWrong {
			t.Fatal(e)
		}
	}
	run, other, small := filepath.Join(dir, "reports/storm-1"), filepath.Join(dir, "reports/storm-2"), filepath.Join(dir, "reports/storm-3")
	was, err := writefile.OpenDir(run)
	if err != nil {
		t.Fatal(err)
	}
	defer was.Close()
	before, err := os.ReadDir(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(run, run+"-gone"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, run); err != nil {
		t.Fatal(err)
	}
	f := flags{saved: run}
	var said bytes.Buffer
	smaller, err := writefile.OpenDir(small)
	if err != nil {
		t.Fatal(err)
	}
	defer smaller.Close()
	f.enlarge(&said, was, smaller)
	if after, err := os.ReadDir(other); err != nil || len(after) != len(before) {
		t.Errorf("another run's folder has %d entries and had %d, %v", len(after), len(before), err)
	}
	if said.Len() == 0 {
		t.Error("nobody is told that the page was not written")
	}
}
