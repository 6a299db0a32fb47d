package worker

import (
	"testing"
	"time"

	"go.uber.org/zap"

	core "github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/lease"
)

// A session that lost a lease before it ran, and acquired it again, continues under the new term.
func TestJobHoldsTheLastTerm(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.store.Options().Leases
	lost := make(chan struct{}, 1)
	cfg.Notify = func(e lease.Event) {
		if e.Kind == lease.EventLost {
			lost <- struct{}{}
		}
	}
	k, err := lease.NewKeeper(r.client, cfg)
	r.must(err)
	r.must(k.Start(t.Context()))
	defer k.Stop()
	w := &Worker{jobs: jobs{All: map[string]*job{"s": {}}}}
	take := func() *lease.Lease {
		h, err := k.TryAcquire(t.Context(), "service:a")
		r.must(err)
		w.keep("s", h)
		return h
	}
	take()
	r.must(r.client.Del(t.Context(), cfg.LeasePrefix+"service:a").Err())
	select {
	case <-lost:
	case <-time.After(2 * cfg.TTL):
		t.Fatal("the lease was not lost")
	}
	now := take()
	terms := &w.jobs.All["s"].Terms
	if h, ok := terms.Of("service:a"); !ok || h != now || !h.Valid() {
		t.Errorf("it holds fence %d; the valid term has %d", h.Fence(), now.Fence())
	}
	if all := terms.Release(); len(all) != 1 {
		t.Errorf("it gives %d terms back; one is not over", len(all))
	}
}

// A pipeline may have returned before the machine learns it and abandons the session, as after a freeze of the process. Its leases can be
// acquired again once the machine forgets the session.
func TestForgottenSessionFreesItsStuckLeases(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	k, err := lease.NewKeeper(r.client, r.store.Options().Leases)
	r.must(err)
	r.must(k.Start(t.Context()))
	defer k.Stop()
	h, err := k.TryAcquire(t.Context(), "service:a")
	r.must(err)
	w := &Worker{log: zaplog.NewLog(zap.NewNop(), "w")}
	w.jobs = w.newJobs()
	w.jobs.All["s"] = &job{}
	w.keep("s", h)
	w.jobs.Carry(core.Effect{Kind: core.Abandon, Session: "s"})
	if _, err := k.TryAcquire(t.Context(), "service:a"); err == nil {
		t.Fatal("a lease whose work is stuck was acquired")
	}
	w.jobs.Carry(core.Effect{Kind: core.Forget, Session: "s"})
	r.must(r.client.Del(t.Context(), r.store.Options().Leases.LeasePrefix+"service:a").Err())
	_, err = k.TryAcquire(t.Context(), "service:a")
	r.must(err)
}
