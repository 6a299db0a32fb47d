package election

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
)

// A member says why nobody is elected: to a probe, and to who gave up waiting in Run.
func TestMemberHealth(t *testing.T) {
	server, client := elected(t)
	e, err := New(client, patient("a"))
	if err != nil {
		t.Fatal(err)
	}
	if h := e.Health(); h.State != lease.HealthNotStarted || h.OK() {
		t.Errorf("before Start: %v", h)
	}
	server.ReadOnly()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ran := make(chan error, 1)
	go func() {
		ran <- e.Run(ctx, func(context.Context, int64) error { return errors.New("leads") })
	}()
	eventually(t, "the refusal is told", func() bool {
		h := e.Health()
		return h.State == lease.HealthRefused && strings.Contains(h.String(), "READONLY")
	})
	cancel(context.DeadlineExceeded)
	if err := <-ran; !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lease.ErrRefused) ||
		!strings.Contains(err.Error(), "READONLY") {
		t.Errorf("Run: %v, want the end of its context and READONLY", err)
	}
	if h := e.Health(); h.State != lease.HealthStopped {
		t.Errorf("after Run: %v", h)
	}
}

// What an election needs besides the lease is checked at Start, key by key.
func TestStartNamesWhatAnElectionLacks(t *testing.T) {
	server, client := elected(t)
	server.Do("ACL", "SETUSER", "default", "resetkeys", "~sovereign:leader", "~sovereign:epoch*")
	e, err := New(client, patient("a"))
	if err != nil {
		t.Fatal(err)
	}
	err = e.Start(t.Context())
	if !errors.Is(err, lease.ErrRefused) || !strings.Contains(err.Error(), " ~{sovereign:leader}:fence ~sovereign:heartbeat:* &sovereign:notify +ping ") {
		t.Errorf("Start: %v", err)
	}
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
}

// A member that leads looks no more: what its last look met says nothing, and nor does a heartbeat that failed before a renewal.
func TestLeaderForgetsItsLastLook(t *testing.T) {
	for name, fault := range map[string]struct{ begin, end func(*redistest.Server) }{
		"a right is taken away": {
			func(s *redistest.Server) { s.Do("ACL", "SETUSER", "default", "resetkeys", "~sovereign:*") },
			func(s *redistest.Server) { s.Do("ACL", "SETUSER", "default", "allkeys") },
		},
		"Redis freezes": {(*redistest.Server).Freeze, (*redistest.Server).Thaw},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, client := elected(t)
			a := join(t, client, quick("a"))
			eventually(t, "it leads and is fit", func() bool { return a.IsLeader() && a.Health().OK() })
			b := join(t, client, quick("b"))
			eventually(t, "the standby is fit", func() bool { return b.Health().OK() })
			fault.begin(server)
			for _, m := range []*member{a, b} {
				eventually(t, "looks fail", func() bool {
					m.g.hand.looking.Note(errors.New("i/o timeout")) // also of who was not looking just then
					return !m.IsLeader() && !m.Health().OK()
				})
			}
			fault.end(server)
			eventually(t, "the leader is fit", func() bool { return a.IsLeader() && a.Health().OK() || b.IsLeader() && b.Health().OK() })
		})
	}
}

// What an ACL takes away from a follower is named with the line that grants it, as at Start.
func TestDenialOfLooksNamesTheRule(t *testing.T) {
	server, client := elected(t)
	cfg := quick("leads")
	leads, err := New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	follows, err := New(client, quick("follows"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*Election{leads, follows} {
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Stop() }()
		eventually(t, "somebody leads", func() bool { return leads.IsLeader() || e.IsLeader() })
	}
	if follows.IsLeader() {
		follows = leads
	}
	server.Do("ACL", "SETUSER", "default", "resetkeys", "~sovereign:leader", "~{sovereign:leader}:fence", "~sovereign:epoch*")
	eventually(t, "the rule is named", func() bool {
		return strings.Contains(follows.Health().Reason, " ~sovereign:heartbeat:* ")
	})
	server.Do("ACL", "SETUSER", "default", "allkeys")
}
