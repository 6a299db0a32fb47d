package worker

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// A lease that only the master has does not count. The pipeline on it ends before another worker can have the lease, and no other begins
// before a replica has it.
func TestLeasesNeedTheMajority(t *testing.T) { // I1
	t.Parallel()
	r := newRig(t)
	replica := redistest.Start(t)
	follow := func() {
		host, port, _ := net.SplitHostPort(r.server.Addr())
		replica.Do("REPLICAOF", host, port)
	}
	follow()
	r.eventually("the replica is attached", func() bool { return strings.Contains(r.server.Do("INFO", "replication").(string), "state=online") })
	cfg := r.config("w1", "1")
	cfg.Logger = zap.NewNop()
	cfg.Store.Leases.Replicas = 1
	w := r.run(cfg)
	a := r.start("a", "hd")
	r.wait(a, intent.StateRunning, "")

	replica.Do("REPLICAOF", "NO", "ONE")
	cut := time.Now()
	if s := r.wait(a, intent.StateEnded, intent.ReasonLeaseLost); time.Since(cut) > 2*options.Leases.TTL || r.work(a).late {
		t.Errorf("%v after the cut: %+v; its trust had ended when it was asked to end: %v", time.Since(cut), s, r.work(a).late)
	}
	b := r.start("b", "hd") // makes the worker try again: Health forgets older failures
	r.eventually("it says why", func() bool { return errors.Is(w.Health().Error(), redisstore.ErrUnacknowledged) })
	r.eventually("no lease is had of the master alone", func() bool { // on a busy machine, an answer is sometimes late
		_, err := w.keeper.TryAcquire(t.Context(), "other")
		if err == nil {
			t.Error("a lease is had of the master alone")
		}
		return err == nil || errors.Is(err, redisstore.ErrUnacknowledged)
	})
	if s, err := r.store.Get(t.Context(), b); err != nil || s.State != intent.StateNew {
		t.Errorf("%+v, %v", s, err)
	}

	follow()
	r.wait(b, intent.StateRunning, "")
}

// A deposed master that does not know of its successor keeps serving its worker. The worker's pipeline must end before another worker has
// the slot. The rig's tuners see both.
func TestOldMasterThatLivesOnLong(t *testing.T) { // I1
	if testing.Short() {
		t.Skip("waits for a switch of masters")
	}
	t.Parallel()
	servers := redistest.StartReplicated(t)
	old := servers.Master()
	r := &rig{T: t, server: old, client: old.Client(), using: map[string]*work{}, works: map[string]*work{}, events: make(chan struct{}, 1)}
	opt := options
	opt.Leases.Replicas = 2
	open := func() {
		st, err := store.New(r.client, opt)
		r.must(err)
		t.Cleanup(func() { st.Close() })
		r.store = st
	}
	open()
	r.must(admin.Bootstrap(t.Context(), r.client, r.store.Options()))
	config := func(name string) Config {
		cfg := r.config(name, "1")
		cfg.Store, cfg.Logger = opt, zap.NewNop()
		return cfg
	}
	r.run(config("w1"))
	a := r.start("a", "hd")
	r.wait(a, intent.StateRunning, "")

	servers.Depose()
	before := r.store
	r.client = servers.Client()
	open()
	r.run(config("w2"))
	r.wait(r.start("b", "hd"), intent.StateRunning, "")
	r.store = before
	r.wait(a, intent.StateEnded, intent.ReasonLeaseLost)
}
