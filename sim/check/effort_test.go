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
