package leasetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/election"
	"github.com/leasestorm/leasestorm/lease/leasetest"
	"github.com/leasestorm/leasestorm/lease/poll"
)

// polls is a poller of one session whose polls take until their context ends.
type polls struct {
	fence atomic.Int64           // of the last one that began
	ended atomic.Pointer[string] // why the last one ended
}

func (p *polls) poll(ctx context.Context, s poll.Session) error {
	p.fence.Store(s.Fence)
	<-ctx.Done()
	why := fmt.Sprint(context.Cause(ctx))
	p.ended.Store(&why)
	return ctx.Err()
}

func (p *polls) why() string {
	if why := p.ended.Load(); why != nil {
		return *why
	}
	return "not ended"
}

const session = "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e"

func write(t *testing.T, r *leasetest.Redis) {
	t.Helper()
	if err := r.Client().Set(t.Context(), "session:"+session, `{"id":"`+session+`"}`, 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// poller starts a poller of the session and waits for its first poll.
func poller(t *testing.T, r *leasetest.Redis) (*polls, *lease.Manager) {
	t.Helper()
	write(t, r)
	p := &polls{}
	m, err := poll.New(r.Client(), lease.Config{InstanceID: "a"}, poll.Config{Poll: p.poll})
	if err == nil {
		err = m.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Stop() })
	pass(time.Second)
	if p.fence.Load() == 0 || !m.Leases().IsOwned(session) {
		t.Fatal("the session is not polled")
	}
	return p, m.Leases()
}

func TestPollerLoses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := leasetest.New(t)
		p, m := poller(t, r)
		first := p.fence.Load()
		r.Lose("poll:lease:" + session)
		if why := p.why(); !strings.Contains(why, lease.ErrLost.Error()) {
			t.Errorf("the poll that ran ended: %s, want that the lease is not held", why)
		}
		pass(2 * poll.DefaultInterval)
		if !m.IsOwned(session) || p.fence.Load() <= first {
			t.Errorf("it is owned again: %t, and polled under the fence %d after %d", m.IsOwned(session), p.fence.Load(), first)
		}
	})
}

func TestPollerIsTakenFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := leasetest.New(t)
		p, m := poller(t, r)
		first := p.fence.Load()
		r.Take("poll:lease:"+session, "other", time.Minute)
		if why := p.why(); !strings.Contains(why, lease.ErrLost.Error()) || m.IsOwned(session) {
			t.Errorf("the poll ended: %s; owned: %t", why, m.IsOwned(session))
		}
		pass(59 * time.Second)
		if m.IsOwned(session) || p.fence.Load() != first {
			t.Error("it is polled while the other has it")
		}
		pass(time.Minute)
		if !m.IsOwned(session) || p.fence.Load() <= first {
			t.Error("it is not polled again")
		}
	})
}

func TestPollerWhenRedisForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := leasetest.New(t)
		p, m := poller(t, r)
		first := p.fence.Load()
		r.Forget()
		write(t, r)
		pass(2 * lease.DefaultTTL)
		if !m.IsOwned(session) || p.fence.Load() != first {
			t.Errorf("its owner has it: %t, under the fence %d, and %d before", m.IsOwned(session), p.fence.Load(), first)
		}
	})
}

func member(t *testing.T, r *leasetest.Redis, id string) (*election.Election, *atomic.Pointer[election.Event]) {
	t.Helper()
	e, err := election.New(r.Client(), election.Config{InstanceID: id})
	if err != nil {
		t.Fatal(err)
	}
	var lost atomic.Pointer[election.Event]
	e.Subscribe(func(ev election.Event) {
		if ev.Kind == election.EventLeadershipLost {
			lost.Store(&ev)
		}
	})
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	pass(time.Second)
	return e, &lost
}

// elected returns a leader, on a Redis that was declared new.
func elected(t *testing.T) (*leasetest.Redis, *election.Election, *atomic.Pointer[election.Event]) {
	t.Helper()
	r := leasetest.New(t)
	if err := admin.Bootstrap(t.Context(), r.Client(), election.Config{}); err != nil {
		t.Fatal(err)
	}
	e, lost := member(t, r, "a")
	if !e.IsLeader() {
		t.Fatal("nobody leads")
	}
	return r, e, lost
}

func TestLeaderLoses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e, lost := elected(t)
		first, _ := e.Fence()
		r.Lose("election:leader")
		if ev := lost.Load(); ev == nil || ev.Fence != first {
			t.Errorf("told %+v, want that the leadership of fence %d is lost", ev, first)
		}
		pass(2 * lease.DefaultTTL)
		if again, _ := e.Fence(); again <= first {
			t.Errorf("it leads under the fence %d after %d", again, first)
		}
	})
}

func TestLeaderIsTakenFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e, lost := elected(t)
		r.Take("election:leader", "other", time.Minute)
		if ev := lost.Load(); ev == nil || ev.Leader != "other" || e.IsLeader() {
			t.Errorf("told %+v, leading: %t; want that other leads", ev, e.IsLeader())
		}
		pass(59 * time.Second)
		if e.IsLeader() {
			t.Error("it leads while the other does")
		}
		pass(time.Minute)
		if !e.IsLeader() {
			t.Error("it does not lead again")
		}
	})
}

func TestLeaderWhenRedisForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e, lost := elected(t)
		other, _ := member(t, r, "b")
		first, _ := e.Fence()
		r.Forget()
		pass(2 * lease.DefaultTTL)
		if fence, leads := e.Fence(); !leads || fence != first || lost.Load() != nil || other.IsLeader() {
			t.Errorf("it leads: %t, under the fence %d, and %d before; it lost it: %v; the other leads: %t", leads, fence, first,
				lost.Load(), other.IsLeader())
		}
	})
}

// Changes of one lease on a Redis do not affect the others.
func TestLeasesOfOneRedisAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e, _ := elected(t)
		k := keeper(t, r, "", nil)
		pass(lease.DefaultTTL + time.Second) // the epoch of keepers was not declared new
		h := acquired(t, k)
		r.Take("election:leader", "other", time.Second)
		if e.IsLeader() || !h.Valid() {
			t.Errorf("the leadership was taken; it leads: %t, and the keeper has its lease: %t", e.IsLeader(), h.Valid())
		}
		pass(time.Minute)
		r.Lose(job)
		lost(t, h)
		if !e.IsLeader() {
			t.Error("the leader lost its leadership too")
		}
	})
}

// Every Run returns nil after a requested stop: its context ended before the start or later, or another caller stopped it.
func TestRunReturnsNilAfterARequestedStop(t *testing.T) {
	type runner struct {
		run  func(context.Context) error
		stop func() error
	}
	makers := map[string]func(*leasetest.Redis) (runner, error){
		"manager": func(r *leasetest.Redis) (runner, error) {
			m, err := lease.NewManager(r.Client(), lease.ManagerConfig{})
			return runner{m.Run, m.Stop}, err
		},
		"poller": func(r *leasetest.Redis) (runner, error) {
			m, err := poll.New(r.Client(), lease.Config{}, poll.Config{Poll: func(context.Context, poll.Session) error { return nil }})
			return runner{m.Run, m.Stop}, err
		},
		"election": func(r *leasetest.Redis) (runner, error) {
			e, err := election.New(r.Client(), election.Config{})
			return runner{func(ctx context.Context) error {
				return e.Run(ctx, func(ctx context.Context, _ int64) error {
					<-ctx.Done()
					return context.Cause(ctx)
				})
			}, e.Stop}, err
		},
	}
	enough := errors.New("enough")
	for name, make := range makers {
		for how, after := range map[string]time.Duration{"at once": 0, "before a lease": time.Second, "with a lease": time.Minute, "by Stop": time.Minute} {
			t.Run(name+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					x, err := make(leasetest.New(t))
					if err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					end := func() { cancel(enough) }
					if how == "by Stop" {
						end = func() { _ = x.stop() }
					}
					if after == 0 {
						end()
					} else {
						time.AfterFunc(after, end)
					}
					if err := x.run(ctx); err != nil {
						t.Errorf("Run = %v, want nil", err)
					}
				})
			})
		}
	}
}
