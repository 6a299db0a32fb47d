package core

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/leasestorm/leasestorm/internal/place"
	"github.com/leasestorm/leasestorm/sim/check"
)

// served is the guarantee that fails or comes late without a cause, and the story that shows it.
var served = [place.Causes]struct{ guarantee, story string }{
	place.DiscoverStart:      {"G6", "join.txt"},
	place.DiscoverSubscribed: {"G6", "discovery.txt"},
	place.DiscoverEpoch:      {"G9", "forgets.txt"},
	place.DiscoverHeard:      {"G8", "late.txt"},
	place.DiscoverRejoined:   {"G6", "refused.txt"},
	place.DiscoverRecovered:  {"G8", "discovery.txt"},
	place.DiscoverLost:       {"G6", "discovery.txt"},
	place.DiscoverChanged:    {"G6", "asked.txt"},
	place.DiscoverJoined:     {"G6", "discovery.txt"},
	place.DiscoverLeft:       {"G13", "discovery.txt"},
	place.DiscoverGone:       {"G5", "discovery.txt"},
	place.DiscoverGoneHeir:   {"G5", "crash.txt"},
	place.DiscoverUnknown:    {"G6", "waiting.txt"},
	place.DiscoverToNobody:   {"G8", "refused.txt"},
	place.DiscoverFree:       {"G5", "waiting.txt"},
	place.DiscoverVanished:   {"G5", "discovery.txt"},
	place.DiscoverOvertaken:  {"G5", "join.txt"},
	place.DiscoverHeir:       {"G6", "discovery.txt"},
	place.DiscoverAble:       {"G6", "discovery.txt"},
	place.DiscoverCounted:    {"G6", "refused.txt"},
	place.DiscoverUnwanted:   {"G8", "unwanted.txt"},
	place.DiscoverMissing:    {"G8", "unwanted.txt"},
	place.DiscoverAsked:      {"G6", "join.txt"},
	place.DiscoverAsking:     {"G6", "discovery.txt"},
	place.DiscoverBlocked:    {"G6", "blocked.txt"},
}

// Every cause of looks serves a guarantee and has a story that comes out otherwise without it.
func TestEveryDiscoveryIsNeeded(t *testing.T) {
	stories, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(stories) == 0 {
		t.Fatal(stories, err)
	}
	for _, path := range stories {
		if differs(t, path, place.Causes-1, false) {
			t.Errorf("%s comes out otherwise although nothing is different", path)
		}
	}
	for cause := range place.Causes {
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
func differs(t *testing.T, path string, cause place.Cause, without bool) (differs bool) {
	r := &place.Rules[cause]
	limit := r.Limit
	if without {
		r.Limit = func(*place.Discoveries) bool { return false }
	}
	defer func() { r.Limit = limit }()
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
