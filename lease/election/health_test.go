package election

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/lease"
)

// A member says why nobody is elected: to a probe, and to who gave up waiting in Run.
func TestMemberHealth(t *testing.T) {
	server, client := elected(t)
	e, err := New(client, quick("a"))
	if err != nil {
		t.Fatal(err)
	}
	if h := e.Health(); h.State != lease.HealthNotStarted || h.OK() {
		t.Errorf("before Start: %v", h)
	}
	server.ReadOnly()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	ran := make(chan error, 1)
	go func() {
		ran <- e.Run(ctx, func(context.Context, int64) error { return errors.New("leads") })
	}()
	eventually(t, "the refusal is told", func() bool {
		h := e.Health()
		return h.State == lease.HealthRefused && strings.Contains(h.String(), "READONLY")
	})
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
	e, err := New(client, quick("a"))
	if err != nil {
		t.Fatal(err)
	}
	err = e.Start(t.Context())
	if !errors.Is(err, lease.ErrRefused) || !strings.Contains(err.Error(), " ~{sovereign:leader}:fence ~sovereign:heartbeat:* +ping ") {
		t.Errorf("Start: %v", err)
	}
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
}

// The context of Start ends nothing once it has returned.
func TestMemberOutlivesTheContextOfItsStart(t *testing.T) {
	_, client := elected(t)
	e, err := New(client, quick("a"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := e.Start(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	eventually(t, "it leads", e.IsLeader)
	if h := e.Health(); !h.OK() {
		t.Errorf("Health: %v", h)
	}
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
}
