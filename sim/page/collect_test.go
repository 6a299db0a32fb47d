package page

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// Exits of a node that once had many leases look for those that it has, and not through the room that the others took.
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
