package page

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// The page shows stalls of the host and late reads of Redis' stream, without short ones.
func TestStallsAreShown(t *testing.T) {
	m := &model{}
	c := newCollector(m, params(), nil)
	for i, kind := range []history.Kind{history.Stall, history.Stall, history.StreamLate} {
		c.event(&history.Event{T: second, Kind: kind, Until: second + int64(i+1)*20*perMs})
	}
	want := []spell{
		{Kind: "stall", Node: -1, Session: -1, From: 1000, To: 1040}, {Kind: "streamLate", Node: -1, Session: -1, From: 1000, To: 1060},
	}
	if !slices.Equal(m.Stalls, want) {
		t.Errorf("%+v are shown, not %+v", m.Stalls, want)
	}
}

// An exit of a node that once had many leases visits only its current ones.
func TestManyExits(t *testing.T) {
	const leases, exits = 200_000, 20_000
	c := newCollector(&model{}, params(), nil)
	event := func(kind history.Kind, i int) {
		c.event(&history.Event{T: 1, Kind: kind, Node: "node-1", Instance: fmt.Sprint("i-", i), Session: "s"})
	}
	for _, kind := range []history.Kind{history.Acquired, history.Released} {
		for i := range leases {
			event(kind, i)
		}
	}
	began := time.Now()
	for range exits {
		event(history.Acquired, 0)
		event(history.Exited, 0)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("%d exits took %v", exits, took)
	}
	if ended := len(c.m.Terms.How); ended != leases+exits {
		t.Errorf("%d terms of %d", ended, leases+exits)
	}
}
