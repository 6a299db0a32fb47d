package check

import (
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// Histories that somebody made up, of which each event makes every later one dearer: they are given up before they take minutes, and
// the verdict of none is one.
func TestLaboriousHistoriesAreRefused(t *testing.T) {
	const length = 1_000_000
	id := func(i int64) string { return fmt.Sprint("i-", i) }
	for name, c := range map[string]struct {
		bend func(p *Params)
		at   func(i int64) history.Event
	}{
		"polls that are never answered": {at: func(i int64) history.Event {
			return history.Event{Kind: history.Arrived, Session: "s", Instance: id(i % 2), N: i}
		}},
		"sessions and the loss of what is seen of Redis": {at: func(i int64) history.Event {
			if i%2 == 0 {
				return history.Event{Kind: history.TapDown}
			}
			return history.Event{Kind: history.SessionAdded, Session: id(i)}
		}},
		"faults that never end": {
			bend: func(p *Params) { p.Plan.Faults = []fault.Fault{{Kind: fault.BlackHole}} },
			at: func(i int64) history.Event {
				if i%2 == 0 {
					return history.Event{Kind: history.FaultStart, N: i, Node: "n", Reason: string(fault.BlackHole)}
				}
				return history.Event{Kind: history.RedisGranted, Session: "s", Instance: id(i), Until: i + 1}
			},
		},
		"overlaps with many": {at: func(i int64) history.Event {
			return history.Event{Kind: history.Acquired, Session: "s", Instance: id(i % 100), Node: id(i % 100), Fence: i + 1, Until: i + 1}
		}},
		"lives of Redis": {
			bend: func(p *Params) { p.Topology, p.Followed, p.Replicas = TopologySentinel, true, 2 },
			at: func(i int64) history.Event {
				if i%2 == 0 {
					return history.Event{Kind: history.RedisLife}
				}
				return history.Event{Kind: history.Arrived, Session: "s", Instance: "i", N: i}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := storyParams()
			p.Tap = true
			if c.bend != nil {
				c.bend(&p)
			}
			if r, err := Judge(p, made(length, c.at), nil); !errors.Is(err, ErrLaborious) || len(r.Verdicts) > 0 {
				t.Errorf("after %d events of %d it has %d verdicts, %v", r.Stats.Events, length, len(r.Verdicts), err)
			}
		})
	}
}

// Histories that somebody made up of what is long over, or of what goes on while nothing comes of it, take no more looks for each event
// where there is ten times as much of that, and no map keeps the room of what it held.
func TestWhatIsOverCostsNothing(t *testing.T) {
	freeze := func(i int64) history.Event {
		return history.Event{Kind: history.FaultStart, N: i, Reason: string(fault.Freeze), Node: "n"}
	}
	for name, at := range map[string]func(many, i int64) history.Event{
		"faults that are over": func(many, i int64) history.Event {
			switch {
			case i < many:
				return freeze(i)
			case i < 2*many-1:
				return history.Event{Kind: history.FaultEnd, N: i - many}
			case i%2 == 0:
				return freeze(i)
			}
			return history.Event{Kind: history.FaultEnd, N: i - 1}
		},
		"leases that went": func(many, i int64) history.Event {
			e := history.Event{Kind: history.RedisBeat, Instance: "i", Until: 1}
			switch {
			case i < many:
				e = history.Event{Kind: history.Acquired, Session: fmt.Sprint(i), Instance: "i", Node: "n", Fence: 1}
			case i < 2*many-1:
				e = history.Event{Kind: history.Lost, Session: fmt.Sprint(i - many), Instance: "i", Node: "n", Fence: 1}
			case i%1000 == 0:
				e = history.Event{Kind: history.RedisEpoch, Reason: fmt.Sprint("run ", i)}
			}
			return e
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := storyParams()
			p.Tap = true
			looks := func(many int64) int64 {
				w, length := judging(p, nil), 4*many
				r, err := w.judge(made(length, func(i int64) history.Event { return at(many, i) }), nil)
				if err != nil || r.Stats.Events != length || w.terms.most > roomy || w.instance("i").held.most > roomy {
					t.Errorf("%d of %d events, %v, with room for %d terms, %d of an instance", r.Stats.Events, length, err, w.terms.most,
						w.instance("i").held.most)
				}
				return w.effort.looks
			}
			const many = 2_000
			if few, lots := looks(many), looks(10*many); lots > 11*few {
				t.Errorf("%d looks, and %d at ten times as much", few, lots)
			}
		})
	}
}

// What a rule goes through is counted, also where it passes over most of it.
func TestLooksAreCounted(t *testing.T) {
	const many = 1000
	terms := func(w *world) *session {
		s := w.session("s")
		for i := range many {
			w.opens(&term{session: s, inst: w.instance(fmt.Sprint(i))})
		}
		return s
	}
	for name, act := range map[string]func(w *world){
		"nodes that are not there": func(w *world) {
			for i := range many {
				w.node(fmt.Sprint(i))
			}
			w.untouched(promise{})
		},
		"terms that a fault could hit": func(w *world) {
			terms(w)
			w.challenges.injected(&injection{Fault: fault.Fault{Kind: fault.Crash}})
		},
		"terms that begin beside others": func(w *world) {
			s := terms(w)
			for _, u := range s.terms {
				u.believes = true
			}
			g := &g1{overlaps: map[*session][]*overlap{}}
			g.w = w
			g.begins(&term{session: s, inst: w.instance("last")})
			if len(w.followers) != 1 {
				t.Errorf("%d exhibits of one event", len(w.followers))
			}
		},
		"breaks": func(w *world) {
			h := &hooks{w: w, kinds: kinds{}}
			for range many / looksNoted {
				h.broke(nil, "again")
			}
		},
		"sessions": func(w *world) {
			for i := range many {
				w.session(fmt.Sprint(i))
			}
			w.everySession(1)
		},
		"faults": func(w *world) {
			for i := range int64(many) {
				w.inject(&history.Event{Kind: history.FaultStart, N: i, Reason: string(fault.Cut)})
			}
			w.effort.looks = 0
			w.late(0, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(storyParams())
			if act(w); w.effort.looks < many*9/10 {
				t.Errorf("%d looks at %d", w.effort.looks, many)
			}
		})
	}
}

// What is over is left behind: what is asked of the last moments, and of those not long before, looks at no fault of hours ago.
func TestHorizonsPassWhatIsOver(t *testing.T) {
	const many = 1000
	w := newWorld(storyParams())
	ttl := int64(w.TTL)
	for i := range int64(many) {
		w.inject(&history.Event{T: i, Kind: history.FaultStart, N: i, Node: "n", Reason: string(fault.Crash)})
	}
	w.now = 1000 * ttl
	w.inject(&history.Event{T: w.now - 20*ttl, Kind: history.FaultStart, N: many, Node: "n", Reason: string(fault.Crash)})
	for back, want := range map[int64]int{1: 0, 19: 1, 30: 1, 1000: many + 1} {
		if got := len(w.since(w.now - back*ttl)); got < want || got > max(want, 1) {
			t.Errorf("%d TTLs back: %d faults, want %d", back, got, want)
		}
	}
	if len(w.near[0].all) != 0 || len(w.near[1].all) != 1 {
		t.Errorf("%d and %d faults within the horizons", len(w.near[0].all), len(w.near[1].all))
	}
}

// A start that is accepted looks for a rival among what runs, and not among all that ever ran.
func TestRivalsRun(t *testing.T) {
	w := newWorld(storyParams())
	b := newIntents()
	b.w = w
	g := &i5{book: b}
	g.w = w
	v := b.want("svc:p:b")
	for i := range 1000 {
		id := fmt.Sprint(i)
		for _, state := range []string{stateRunning, stateEnded} {
			b.state(&history.Event{Session: id, Reason: state})
		}
		b.place(b.session(id), v)
	}
	if g.rivalled(b.session("new"), v) || w.effort.looks != 0 {
		t.Errorf("%d looks where none runs", w.effort.looks)
	}
	b.state(&history.Event{Session: "rival", Reason: stateRunning})
	b.place(b.session("rival"), v)
	w.now = 1
	b.session("rival").asked = 1
	if s := b.session("new"); !g.rivalled(s, v) || g.rivalled(b.session("rival"), v) || g.rivalled(s, b.want("other:p:b")) {
		t.Error("another session of the service runs")
	}
	if b.lost(); g.rivalled(b.session("new"), v) {
		t.Error("what ran before a loss of data is no rival")
	}
}

// The model check looks for windows that end when one can have ended, and not at each event.
func TestModelCheckLooksWhereAWindowEnds(t *testing.T) {
	const many, until = 1000, 100
	w := newWorld(storyParams())
	o := newModelCheck(w)
	s := w.session("s")
	l := &sampled{}
	s.sampled, o.leases["s"] = l, l
	for i := range many {
		w.subject, w.reporter = s, w.instance(fmt.Sprint(i))
		o.event(&history.Event{T: 1, Kind: history.Acquired, Session: "s", Instance: w.reporter.id, Until: until + int64(i)})
	}
	renewed := history.Event{T: until - 1, Kind: history.Renewed, Session: "s", Instance: w.reporter.id, Until: 10 * until}
	if o.event(&renewed); w.effort.looks != 0 {
		t.Errorf("%d looks where no window ends", w.effort.looks)
	}
	if renewed.T = until; len(l.holders.of) != many {
		t.Fatalf("%d holders", len(l.holders.of))
	}
	if o.event(&renewed); w.effort.looks != looksSorted*many || len(l.holders.of) != many-1 || l.soonest != until+1 {
		t.Errorf("%d looks where one of %d ends, %d are left, and the next ends at %d", w.effort.looks, many, len(l.holders.of), l.soonest)
	}
}

// A history that takes too much when it is at its end has no verdict either: what the rules passed over then could have broken them.
func TestLaboriousEnds(t *testing.T) {
	w := newWorld(storyParams())
	w.checkers = []checker{&heavy{}}
	w.checkers[0].attach(w, Verdict{})
	events := made(1, func(int64) history.Event { return history.Event{Kind: history.Phase, Reason: "end"} })
	if r, err := w.judge(events, nil); !errors.Is(err, ErrLaborious) || len(r.Verdicts) > 0 {
		t.Errorf("%d verdicts, %v", len(r.Verdicts), err)
	}
}

// heavy is a rule that looks at very much when the history is at its end.
type heavy struct{ hooks }

func (h *heavy) finish() { h.w.looks(10 * looksFree) }

// Very many events earn no more than those of the longest storms.
func TestEventsEarnUpToALimit(t *testing.T) {
	w := newWorld(storyParams())
	for range looksEarned/looksEach + 10 {
		w.earns()
	}
	if w.effort.allowed != looksEarned || !w.looks(looksFree+looksEarned) || w.looks(1) {
		t.Errorf("they earned %d", w.effort.allowed)
	}
}

// A map that shrank is as small as what is left of it.
func TestDwindlingGivesBackItsRoom(t *testing.T) {
	var d dwindling[int, int]
	for i := range 10_000 {
		d.put(i, i)
	}
	for i := range 9_999 {
		d.drop(i)
	}
	if v, there := d.of[9_999]; !there || v != 9_999 || len(d.of) != 1 || d.most > roomy {
		t.Errorf("%v, with room for %d", d.of, d.most)
	}
	d.drop(9_999)
	d.put(1, 2)
	if d.clear(); len(d.of) != 0 {
		t.Errorf("%v", d.of)
	}
}

// made yields so many events, a microsecond apart.
func made(n int64, at func(i int64) history.Event) iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		for i := range n {
			e := at(i)
			e.T = 1 + i*1000
			if e.Until != 0 {
				e.Until = e.T + 3_000_000_000
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}
