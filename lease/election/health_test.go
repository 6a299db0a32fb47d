package election

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
)

// A member says why nobody is elected. A stop meanwhile is no error.
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
	redistest.Eventually(t, "the refusal is told", func() bool {
		h := e.Health()
		return h.State == lease.HealthRefused && strings.Contains(h.String(), "READONLY")
	})
	cancel(context.DeadlineExceeded)
	if err := <-ran; err != nil {
		t.Errorf("Run: %v", err)
	}
	if h := e.Health(); h.State != lease.HealthStopped {
		t.Errorf("after Run: %v", h)
	}
}

// If an ACL change denies a follower something, the error has the line that grants it, as at Start.
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
		redistest.Eventually(t, "somebody leads", func() bool { return leads.IsLeader() || e.IsLeader() })
	}
	if follows.IsLeader() {
		follows = leads
	}
	server.Do("ACL", "SETUSER", "default", "resetkeys", "~election:leader", "~{election:leader}:fence", "~election:epoch*")
	redistest.Eventually(t, "the rule is named", func() bool {
		return strings.Contains(follows.Health().Reason, " ~election:heartbeat:* ")
	})
	server.Do("ACL", "SETUSER", "default", "allkeys")
}
