package redis

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redisstore/storetest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/poll"
)

// The production store with its client passes the store's suite on the model.
func TestConformanceByWire(t *testing.T) {
	storetest.Run(t, func(t *testing.T, quarantine time.Duration) storetest.Harness {
		opt := redisstore.Options{Quarantine: quarantine, OpTimeout: 5 * time.Second}
		m := &model{T: t, redis: New(Config{Options: opt, Wrote: deaf, Publish: func(core.Notice) {}, Lua: true}, nil)}
		h := &byWire{model: m, wired: newWired(m.redis), more: make(chan struct{}, 1)}
		h.begin(opt)
		return h
	})
}

// byWire is a model that the production store reaches.
type byWire struct {
	*model
	wired *wired
	store *redisstore.Store

	mu    sync.Mutex
	heard []core.Notice
	more  chan struct{} // has a token after heard has grown
}

func (h *byWire) begin(opt redisstore.Options) {
	store, err := redisstore.New(h.wired.client(h.T, 3), opt)
	if err != nil {
		h.Fatal(err)
	}
	h.store = store
	ctx, cancel := context.WithCancel(h.Context())
	up, ended := make(chan error, 16), make(chan struct{})
	go func() {
		defer close(ended)
		store.Subscribe(ctx, time.Second, h.hear, func(err error) {
			select {
			case up <- err:
			default: // nobody waits for it
			}
		})
	}()
	h.Cleanup(func() {
		cancel()
		<-ended
		_ = store.Close()
	})
	if err := <-up; err != nil {
		h.Fatal(err)
	}
}

func (h *byWire) hear(n core.Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, n)
	select {
	case h.more <- struct{}{}:
	default:
	}
}

func (h *byWire) Notices(n int) []core.Notice {
	for {
		h.mu.Lock()
		got := h.heard
		if len(got) >= n {
			h.heard = nil
			h.mu.Unlock()
			return got
		}
		h.mu.Unlock()
		<-h.more
	}
}

func (h *byWire) Store() storetest.Store { return h.store }

func (h *byWire) Lease(id string) (owner string, left time.Duration) {
	h.wired.do(func() {
		h.t = h.wired.t
		owner, left = h.model.Lease(id)
	})
	return owner, left
}

func (h *byWire) SetLease(id, owner string, ttl time.Duration) {
	h.wired.do(func() {
		h.t = h.wired.t
		h.model.SetLease(id, owner, ttl)
	})
}

func (h *byWire) DeleteLease(id string)   { h.wired.do(func() { h.model.DeleteLease(id) }) }
func (h *byWire) DeleteFence(id string)   { h.wired.do(func() { h.model.DeleteFence(id) }) }
func (h *byWire) SpoilLease(id string)    { h.wired.do(func() { h.model.SpoilLease(id) }) }
func (h *byWire) SpoilFence(id string)    { h.wired.do(func() { h.model.SpoilFence(id) }) }
func (h *byWire) Flush()                  { h.wired.do(h.model.Flush) }
func (h *byWire) ForgetScripts()          { h.wired.do(h.redis.Forget) }
func (h *byWire) ReadOnly(on bool)        { h.wired.do(func() { h.model.ReadOnly(on) }) }
func (h *byWire) Loading()                { h.wired.do(func() { h.redis.Loading = true }) }
func (h *byWire) Advance(d time.Duration) { h.wired.advance(d + time.Millisecond) }

// Restart keeps the connections.
func (h *byWire) Restart(empty bool) {
	h.wired.do(func() {
		h.model.Restart(empty)
		h.redis.Forget()
	})
}

// Two keepers of the library share a lease of the model, and the second learns by a notice that it is free.
func TestLibraryByWire(t *testing.T) {
	w := newWired(guestServer())
	w.redis.Lease("work")
	ctx, client := t.Context(), w.client(t, 3)
	cfg := lease.Config{
		LeasePrefix: redisstore.DefaultLeasePrefix, NodePrefix: redisstore.DefaultNodePrefix, EpochKey: redisstore.DefaultEpochKey,
		Channel: redisstore.DefaultChannel,
	}
	if err := admin.Bootstrap(ctx, client, cfg); err != nil {
		t.Fatal(err)
	}
	keepers := make([]*lease.Keeper, 2)
	for i, id := range []string{"one", "two"} {
		cfg.InstanceID = id
		k, err := lease.NewKeeper(client, cfg)
		if err == nil {
			err = k.Start(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = k.Stop() }()
		keepers[i] = k
	}
	held, err := keepers[0].TryAcquire(ctx, "work")
	if err != nil {
		t.Fatal(err)
	}
	var op *lease.OpError
	if _, err := keepers[1].TryAcquire(ctx, "work"); !errors.As(err, &op) || op.Owner != "one" {
		t.Errorf("a held lease: %v", err)
	}
	w.do(func() {
		if k := w.redis.leases[w.redis.Lease("work")]; k.owner != "one" || k.fence == 0 {
			t.Errorf("the model has %+v", k)
		}
	})
	next := make(chan error)
	go func() {
		held, err := keepers[1].Acquire(ctx, "work")
		if err == nil {
			err = held.Release(ctx)
		}
		next <- err
	}()
	if err := held.Release(ctx); err != nil {
		t.Error(err)
	}
	if err := <-next; err != nil {
		t.Error(err)
	}
}

// A session manager finds the application's sessions in the model, and polls only those that are not paused.
func TestSessionsByWire(t *testing.T) {
	const wanted, paused = "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e", "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5f"
	w := newWired(guestServer())
	w.redis.SetSessions(core.NewSessions([]string{wanted}), paused)
	ctx, client := t.Context(), w.client(t, 2)
	if err := admin.Bootstrap(ctx, client, lease.ManagerConfig{}); err != nil {
		t.Fatal(err)
	}
	polled := make(chan string, 100)
	m, err := poll.New(client, lease.Config{}, poll.Config{Poll: func(_ context.Context, s poll.Session) error {
		polled <- s.ID
		return nil
	}})
	if err == nil {
		err = m.Start(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Stop() }()
	if id := <-polled; id != wanted {
		t.Errorf("polled %s", id)
	}
	if text := client.Get(ctx, "session:"+paused).Val(); text != `{"id":"`+paused+`","name":"session","endpoint":"/poll/`+paused+`","isPaused":true}` {
		t.Errorf("the paused session is %s", text)
	}
}

// A server that is promoted with older keys has no session that the application has removed since.
func TestPromotedServerHasTheSessions(t *testing.T) {
	r := guestServer()
	r.SetSessions(core.NewSessions([]string{"kept", "removed"}))
	old := r.Copy()
	r.SetSessions(core.NewSessions([]string{"kept"}), "paused")
	r.Restore(old)
	for id, want := range map[string]bool{"kept": true, "paused": true, "removed": false} {
		if _, is := r.Obey(0, []string{"GET", sessionPrefix + id}).(string); is != want {
			t.Errorf("session %s: %t", id, is)
		}
	}
}
