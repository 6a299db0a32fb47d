package core

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/leasestorm/leasestorm/sim/check"
)

// served is the guarantee that fails or comes late without a cause, and the story that shows it.
var served = [discoveryCauses]struct{ guarantee, story string }{
	discoverStart:        {"G6", "join.txt"},
	discoverInterval:     {"G6", "crash.txt"},
	discoverSubscribed:   {"G6", "discovery.txt"},
	discoverSlept:        {"G5", "discovery.txt"},
	discoverEpoch:        {"G9", "forgets.txt"},
	discoverHeard:        {"G8", "late.txt"},
	discoverHeardBriefly: {"G14", "discovery.txt"},
	discoverRejoined:     {"G6", "refused.txt"},
	discoverRecovered:    {"G8", "discovery.txt"},
	discoverLost:         {"G6", "discovery.txt"},
	discoverChanged:      {"G6", "asked.txt"},
	discoverJoined:       {"G6", "discovery.txt"},
	discoverLeft:         {"G13", "discovery.txt"},
	discoverGone:         {"G5", "discovery.txt"},
	discoverGoneHeir:     {"G5", "crash.txt"},
	discoverUnknown:      {"G6", "waiting.txt"},
	discoverToNobody:     {"G8", "refused.txt"},
	discoverFree:         {"G5", "waiting.txt"},
	discoverVanished:     {"G5", "discovery.txt"},
	discoverOvertaken:    {"G5", "join.txt"},
	discoverHeir:         {"G6", "discovery.txt"},
	discoverAble:         {"G6", "discovery.txt"},
	discoverCounted:      {"G6", "refused.txt"},
	discoverUnwanted:     {"G8", "unwanted.txt"},
	discoverMissing:      {"G8", "unwanted.txt"},
	discoverAsked:        {"G6", "join.txt"},
	discoverAsking:       {"G6", "discovery.txt"},
	discoverBlocked:      {"G6", "blocked.txt"},
}

// Every cause of looks serves a guarantee and has a story that comes out otherwise without it.
func TestEveryDiscoveryIsNeeded(t *testing.T) {
	stories, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(stories) == 0 {
		t.Fatal(stories, err)
	}
	for _, path := range stories {
		if differs(t, path, discoveryCauses-1, false) {
			t.Errorf("%s comes out otherwise although nothing is different", path)
		}
	}
	for cause := range discoveryCauses {
		guarantee, story := served[cause].guarantee, served[cause].story
		if !slices.Contains(check.IDs(""), guarantee) {
			t.Errorf("cause %d serves %q, which is no guarantee", cause, guarantee)
		}
		path := filepath.Join("testdata/stories", story)
		if _, err := os.Stat(path); story == "" || err != nil {
			t.Errorf("cause %d: story %q: %v", cause, story, err)
			continue
		}
		if !differs(t, path, cause, true) {
			t.Errorf("cause %d: %s comes out the same without it", cause, story)
			for _, other := range stories {
				if differs(t, other, cause, true) {
					t.Logf("%s comes out otherwise", other)
				}
			}
		}
	}
}

// differs reports whether the stories of a file come out otherwise when nothing is looked at for cause.
func differs(t *testing.T, path string, cause discoveryCause, without bool) (differs bool) {
	r := &discoveryRules[cause]
	limit := r.limit
	if without {
		r.limit = func(*fleet) bool { return false }
	}
	defer func() { r.limit = limit }()
	s := &story{epoch: "r1"}
	steps(t, path, func(d *datadriven.TestData, want string) {
		s.out.Reset()
		s.run(t, d)
		got := strings.TrimSpace(s.out.String())
		differs = differs || cmp.Or(got, "nothing") != want
	})
	return differs
}

// steps calls step for each of the stories of a file, with what it is to come to.
func steps(t *testing.T, path string, step func(d *datadriven.TestData, want string)) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "\n\n") {
		told, want, ok := strings.Cut(part, "\n----\n")
		if !ok {
			continue // only a comment
		}
		for strings.HasPrefix(told, "#") || strings.HasPrefix(told, "\n") {
			_, told, _ = strings.Cut(told, "\n")
		}
		line, input, _ := strings.Cut(told, "\n")
		d := &datadriven.TestData{Input: input}
		if d.Cmd, d.CmdArgs, err = datadriven.ParseLine(line); err != nil {
			t.Fatal(err)
		}
		step(d, strings.TrimSpace(want))
	}
}
