package election

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
)

// claims counts how often the member reported itself as leader.
func (m *member) claims() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events {
		if e.Kind == EventLeaderChanged && e.Leader == m.InstanceID() {
			n++
		}
	}
	return n
}

func TestEpochKeyOfAnotherTypeIsToldInEveryInterval(t *testing.T) {
	t.Parallel()
	cfg := Config{InstanceID: "a", LeaderTTL: 3 * time.Second, OpTimeout: time.Second}
	_, client := electedFor(t, cfg)
	cfg.ElectionInterval = 5 * time.Millisecond // so that a read falls between the window's end and the key's
	a := join(t, client, cfg)
	fence := a.wait(EventLeadershipAcquired).Fence
	client.Del(t.Context(), "election:epoch")
	client.LPush(t.Context(), "election:epoch", "somebody's list")
	a.wait(EventLeadershipLost)
	for told := 0; told < 20; {
		switch e := a.wait(EventElectionFailed); {
		case strings.Contains(e.Reason, "WRONGTYPE the epoch key election:epoch"):
			told++
		case !strings.HasPrefix(e.Reason, "no answer"): // the machine stalled
			t.Fatalf("the reason is %q", e.Reason)
		}
	}
	if l, ok := a.Leader(); ok {
		t.Errorf("a takes %+v for the leader although nobody leads", l)
	}
	if got := a.claims(); got != 1 {
		t.Errorf("a said %d times that it leads, and led once", got)
	}
	client.Del(t.Context(), "election:epoch")
	if got := a.wait(EventLeadershipAcquired).Fence; got <= fence {
		t.Errorf("fence %d after %d", got, fence)
	}
	redistest.Eventually(t, "a says that it leads again", func() bool { return a.claims() > 1 }) // this event follows LeadershipAcquired
	if got := a.claims(); got != 2 {
		t.Errorf("a said %d times that it leads, and led twice", got)
	}
}

func TestNobodyIsKnownToLeadWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	server, client := elected(t)
	a := join(t, client, quick("a"))
	a.wait(EventLeadershipAcquired)
	b := join(t, client, quick("b"))
	redistest.Eventually(t, "b knows a", func() bool { _, ok := b.Leader(); return ok })
	server.Freeze()
	defer server.Thaw()
	for _, m := range []*member{a, b} {
		redistest.Eventually(t, m.InstanceID()+" knows nobody", func() bool { _, ok := m.Leader(); return !ok })
	}
	after(2 * time.Second) // reads fail meanwhile
	for _, m := range []*member{a, b} {
		if l, ok := m.Leader(); ok {
			t.Errorf("%s takes %+v for the leader", m.InstanceID(), l)
		}
	}
	server.Thaw()
	redistest.Eventually(t, "both know the same leader", func() bool {
		x, known := a.Leader()
		y, too := b.Leader()
		return known && too && x.Instance == y.Instance && x.Fence == y.Fence
	})
}

// If Redis refuses or does not answer a release, the error of Stop has the reason.
func TestStopThatRedisDoesNotConfirm(t *testing.T) {
	t.Parallel()
	for reason, breaks := range map[string]func(*redistest.Server){
		"NOREPLICAS":  func(s *redistest.Server) { s.Do("CONFIG", "SET", "min-replicas-to-write", "1") },
		"i/o timeout": (*redistest.Server).Freeze,
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			server, client := elected(t)
			a := join(t, client, quick("a"))
			a.wait(EventLeadershipAcquired)
			breaks(server)
			var op *lease.OpError
			if err := a.Stop(); !errors.As(err, &op) || op.Op != "stop" || !op.Unknown || !strings.Contains(err.Error(), reason) {
				t.Errorf("Stop = %v", err)
			}
		})
	}
}
