package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/leasestorm/leasestorm/internal/heldtest"
	"github.com/leasestorm/leasestorm/sim/page"
	"github.com/leasestorm/leasestorm/sim/report"
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
	was := heldtest.Dir(t, run)
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
	f := flags{saved: was}
	var said bytes.Buffer
	f.enlarge(&said, heldtest.Dir(t, small))
	if after, err := os.ReadDir(other); err != nil || len(after) != len(before) {
		t.Errorf("another run's folder has %d entries and had %d, %v", len(after), len(before), err)
	}
	if _, err := os.Stat(filepath.Join(run+"-gone", page.SmallerName, report.FileName)); err != nil || said.Len() > 0 {
		t.Errorf("the run that was read does not hold the smaller one: %v, %s", err, said.String())
	}
}
