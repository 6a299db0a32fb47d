package policy

import (
	"slices"
	"testing"
)

type named struct {
	lease    string
	fence    int
	believed bool
}

func (n named) Name() string { return n.lease }
func (n named) Valid() bool  { return n.believed }

func TestTermsOfASession(t *testing.T) {
	var s Terms[named]
	lost, service, slot := named{"a", 1, false}, named{"a", 2, true}, named{"t", 3, true}
	launch := func(want bool, why string) {
		t.Helper()
		if _, _, ok := s.Launch("a", "t"); ok != want {
			t.Errorf("it may launch: %v, %s", ok, why)
		}
	}
	launch(false, "without any lease")
	s.Keep(lost)
	s.Keep(slot)
	launch(false, "under a term that is not believed in")
	s.Keep(service)
	launch(true, "under the terms that it has now")
	if got := s.Abandon(); !slices.Equal(got, []named{slot, service}) {
		t.Errorf("abandoned %v", got)
	}
	launch(false, "under terms that are abandoned")
	if got := s.Release(); len(got) > 0 {
		t.Errorf("gives back %v, which stuck work may still use", got)
	}
	if got := s.Recover(); !slices.Equal(got, []named{slot, service}) {
		t.Errorf("recovered %v", got)
	}
	s.Keep(slot)
	s.Keep(service)
	if got := s.Release(); !slices.Equal(got, []named{slot, service}) {
		t.Errorf("gives back %v", got)
	}
	if got := append(s.Release(), s.Recover()...); len(got) > 0 {
		t.Errorf("once more %v", got)
	}
}
