package lease

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Any client of Redis can publish any notice, from any database. A forged notice costs nobody a lease and gives nobody one, because
// instances read the state.
func TestForgedNoticesMoveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		ids := sessionIDs(12)
		var ended []Event
		rigs := map[string]*rig{}
		for _, name := range []string{"a", "b"} {
			rigs[name] = newRig(t, r, name, false, func(c *ManagerConfig) {
				c.Sessions = func(context.Context) ([]string, error) { return slices.Clone(ids), nil }
				c.Notify = func(e Event) {
					switch e.Kind {
					case EventYield:
						e.Lease.Drop()
						fallthrough
					case EventLost, EventReleased:
						ended = append(ended, e)
					}
				}
			})
		}
		pass(30 * time.Second)
		owned := map[string][]string{}
		for name, g := range rigs {
			owned[name] = g.managerOf().OwnedSessions()
		}
		ended = nil
		for range 300 {
			for _, from := range []string{"a", "b", "ghost"} {
				r.forge(core.Notice{Kind: core.NoticeTaken, From: from, IDs: ids})
				r.forge(core.Notice{Kind: core.NoticeFreed, From: from, IDs: ids, Peers: make([]string, len(ids))})
				for _, to := range []string{"a", "b"} {
					r.forge(core.Notice{Kind: core.NoticeAsked, From: from, IDs: ids, Peers: []string{to}})
				}
				r.forge(core.Notice{Kind: core.NoticeJoined, From: from})
				r.forge(core.Notice{Kind: core.NoticeLeft, From: from})
			}
			pass(100 * time.Millisecond)
		}
		for name, g := range rigs {
			if got := g.managerOf().OwnedSessions(); !slices.Equal(got, owned[name]) {
				t.Errorf("%s owned %v, and owns %v", name, owned[name], got)
			}
		}
		if len(ended) > 0 {
			t.Errorf("terms ended: %+v", ended)
		}
	})
}

// forge sends everybody a notice without a sender.
func (r *fakeRedis) forge(n core.Notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, heard := range r.heard {
		heard(n)
	}
}

// Waiting notices are also bounded in bytes, because a few may be as long as many.
func TestLongNoticesDoNotPileUp(t *testing.T) {
	b := inbox{wake: make(chan struct{}, 1)}
	n := core.Notice{Kind: core.NoticeTaken, From: "b", IDs: slices.Repeat([]string{"x"}, noticeBytes/64)}
	for range 100 {
		b.put(message{ev: core.Event{Kind: core.EvNotice, Notice: n}})
	}
	b.put(message{run: func() {}})
	items, missed, _ := b.take(nil)
	if len(items) < 2 || len(items) > 10 || !missed || items[len(items)-1].run == nil {
		t.Errorf("%d of 100 notices and one function wait, missed %v", len(items), missed)
	}
	b.put(message{ev: core.Event{Kind: core.EvNotice, Notice: n}})
	if items, missed, _ = b.take(items); len(items) != 1 || missed {
		t.Errorf("after that %d wait, missed %v", len(items), missed)
	}
}
