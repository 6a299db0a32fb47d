package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// alone runs f in a bubble, with an instance of which only the tested part exists.
func alone(t *testing.T, f func(t *testing.T, in *instance, tab *table)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		in := newInstance(&fakeStore{r: newFakeRedis()}, ManagerConfig{Config: Config{InstanceID: "a"}}.withDefaults(), false)
		defer in.workers.Wait()
		defer in.cancel()
		f(t, in, &table{in: in, counts: newRenewals()})
	})
}

func acquiredNow(in *instance, name string, fence int64) core.Tell {
	now := in.now()
	return core.Tell{Kind: core.TellAcquired, ID: name, Fence: fence, Until: now.Mono + core.Time(time.Minute),
		UntilWall: now.Wall + int64(time.Minute)}
}

// A step changes all terms together. If an attempt gets no answer, belief ends at its deadline (G4).
func TestTrustTable(t *testing.T) {
	alone(t, func(t *testing.T, in *instance, tab *table) {
		one := tab.apply([]core.Tell{acquiredNow(in, "x", 1), acquiredNow(in, "y", 2)}, nil)
		two := tab.apply([]core.Tell{{Kind: core.TellLost, ID: "x"}, acquiredNow(in, "x", 3)}, nil)
		if two[0] != one[0] || one[0].Valid() || tab.get("x") != two[1] || !two[1].Valid() || len(tab.holds()) != 2 {
			t.Errorf("lost %v, acquired %v; the table has %v", two[0], two[1], tab.holds())
		}
		tab.attempting(&core.Op{Items: []core.Item{{ID: "y"}, {ID: "z"}}, Deadline: in.now().Mono + core.Time(time.Second)})
		if pass(time.Second); one[1].Valid() || !two[1].Valid() {
			t.Errorf("a second later: y is believed %v, x %v", one[1].Valid(), two[1].Valid())
		}
		if tab.apply([]core.Tell{{Kind: core.TellReleased, ID: "x"}, {Kind: core.TellReleased, ID: "y"}}, nil); !tab.empty() {
			t.Errorf("after the releases: %v", tab.holds())
		}
	})
}

// A request that waits until its deadline is answered without being sent. Only a few reads of callers are in flight.
func TestRequestsInFlight(t *testing.T) {
	alone(t, func(t *testing.T, in *instance, _ *table) {
		r := requests{instance: in, outside: make(chan struct{}, outsideMax)}
		r.start()
		op := &core.Op{Kind: core.OpRenew, Seq: 7, Deadline: in.now().Mono}
		r.put(op)
		synctest.Wait()
		got, _, _ := in.inbox.take(nil)
		if len(got) != 1 || got[0].op != op || got[0].ev.Answer.Seq != 7 || got[0].ev.Answer.Failure != core.FailUnsent {
			t.Errorf("%+v", got)
		}
		r.close()
		var done func()
		for range outsideMax {
			done, _ = r.outsider(t.Context())
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.outsider(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("one read too many: %v", err)
		}
		done()
		if _, err := r.outsider(t.Context()); err != nil {
			t.Errorf("after a read has ended: %v", err)
		}
		in.cancel()
		if _, err := r.outsider(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("after the stop: %v", err)
		}
	})
}

// The first caller gets the term. If it gives up at that moment, the term is released. A stop answers the waiting callers.
func TestCallersInTurn(t *testing.T) {
	alone(t, func(t *testing.T, in *instance, tab *table) {
		var last core.Event
		note := func(e core.Event) { last = e }
		c := callers{instance: in, table: tab, step: note, later: note}
		first, second := &waiter{wait: true, ch: make(chan error, 1)}, &waiter{wait: true, ch: make(chan error, 1)}
		c.want("x", first)
		if c.want("x", second); last.Kind != core.EvWant || last.ID != "x" || !last.Wait {
			t.Errorf("wanted: %+v", last)
		}
		h := tab.apply([]core.Tell{acquiredNow(in, "x", 1)}, nil)[0]
		if c.acquired(h); <-first.ch != nil || first.hold != h || second.done {
			t.Errorf("the first has %v, the second is answered: %v", first.hold, second.done)
		}
		if c.unwant("x", first); last.Kind != core.EvDrop || last.ID != "x" {
			t.Errorf("given up: %+v", last)
		}
		if c.close(); !errors.Is(<-second.ch, ErrStopped) {
			t.Error("the second is not told of the stop")
		}
	})
}
