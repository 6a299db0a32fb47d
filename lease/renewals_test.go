package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/inner"
)

// TestRenewalsAreCounted: the duration of each renewal, and the rest of the window before it. The term counts its own.
func TestRenewalsAreCounted(t *testing.T) {
	s := startShell(&fakeStore{r: newFakeRedis()}, ManagerConfig{Config: Config{InstanceID: "one"}}.withDefaults(), false)
	defer func() { logTaken(s); s.cancel() }()
	const ms = core.Time(time.Millisecond)
	at := s.now().Mono
	s.loop.carry([]core.Tell{{Kind: core.TellAcquired, ID: "thing", At: at, Until: at + 1000*ms}})
	s.loop.carry([]core.Tell{{Kind: core.TellRenewed, ID: "thing", At: at + 303*ms, Sent: at + 300*ms, Until: at + 1300*ms}})
	s.loop.carry([]core.Tell{{Kind: core.TellRenewed, ID: "thing", At: at + 1400*ms, Sent: at + 600*ms, Until: at + 1600*ms}})
	r := s.table.counts.now()
	for what, h := range map[string]struct {
		got  inner.Histogram
		sum  float64
		want []float64 // the bounds of the buckets that have one
	}{"took": {r.Took, 0.803, []float64{.005, 1}}, "margin": {r.Margin, 0.697, []float64{.01, 1}}} {
		var in []float64
		for i, n := range h.got.Counts {
			if n == 1 {
				in = append(in, h.got.Bounds[i])
			}
		}
		if h.got.Count() != 2 || h.got.Sum < h.sum-1e-9 || h.got.Sum > h.sum+1e-9 || !slices.Equal(in, h.want) {
			t.Errorf("%s: %d of %v s in all, in the buckets of %v; want 2 of %v in %v", what, h.got.Count(), h.got.Sum, in, h.sum, h.want)
		}
	}
	if n := (innerLease{s.table.get("thing")}).Renewals(); n != 2 {
		t.Errorf("the term has %d renewals", n)
	}
	var above inner.Histogram
	above.Bounds = []float64{1}
	above.Observe(2 * time.Second)
	if above.Counts[1] != 1 {
		t.Errorf("%v, want what is above all bounds in the last", above.Counts)
	}
}

// TestChangesAreNoRoutine: a subscriber of changes gets no attempts, and only the renewals that end an uncertainty. A subscriber of
// everything gets all.
func TestChangesAreNoRoutine(t *testing.T) {
	s := startShell(&fakeStore{r: newFakeRedis()}, ManagerConfig{Config: Config{InstanceID: "one"}}.withDefaults(), false)
	defer func() { logTaken(s); s.cancel() }()
	told := func(changes bool) (*[]EventKind, func()) {
		var kinds []EventKind
		cancel := s.hub.subscribe(func(e Event) { kinds = append(kinds, e.Kind) }, changes, s.log.Calls)
		l := s.hub.current()[len(s.hub.current())-1]
		return &kinds, func() { cancel(); <-l.Idle() }
	}
	play := func() {
		at := s.now().Mono
		tell := func(kind core.TellKind, doubted bool) {
			s.loop.carry([]core.Tell{{Kind: kind, ID: "thing", At: at, Until: at + core.Time(time.Minute), Doubted: doubted}})
		}
		s.announcer.attempt(&core.Op{Kind: core.OpAcquire, Items: []core.Item{{ID: "thing"}}})
		tell(core.TellAcquired, false)
		s.announcer.attempt(&core.Op{Kind: core.OpRenew, Items: []core.Item{{ID: "thing"}}})
		tell(core.TellRenewed, false)
		tell(core.TellUncertain, false)
		tell(core.TellRenewed, true)
		tell(core.TellReleased, false)
	}
	changes, end := told(true)
	play() // without a subscriber of everything
	all, endAll := told(false)
	play()
	end()
	endAll()
	want := []EventKind{EventAcquired, EventUncertain, EventRenewed, EventReleased}
	if !slices.Equal(*changes, append(want, want...)) {
		t.Errorf("of changes %v were told, want %v twice", *changes, want)
	}
	want = []EventKind{EventAcquiring, EventAcquired, EventRenewing, EventRenewed, EventUncertain, EventRenewed, EventReleased}
	if !slices.Equal(*all, want) {
		t.Errorf("of all %v were told, want %v", *all, want)
	}
}
