package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/explore"
)

// A seed is useless without the version that draws it and the flags of its exploration, so both lines name them.
func TestMergedSeedsCanBePlayedAgain(t *testing.T) {
	m := explore.Merged{Causes: []*explore.Cause{{Broke: []string{"G6"}, Count: 1, Seeds: []uint64{29573}, First: explore.FailedSeed{Seed: 29573}}}}
	m.Draw = 2
	var out bytes.Buffer
	printMerged(&out, &m)
	for _, want := range []string{"simulate replay 29573@2 (with the flags", "simulate shrink 29573@2 (with them too)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}
