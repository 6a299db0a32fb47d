package poll

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease"
)

// Polls end slowly when their leases are requested. Then Redis loses its data, so that nobody could acquire the released leases. The polls
// return while the caller learns of the first cancelled handover.
func TestPollingGoesOnWhenHandoversAreTakenBack(t *testing.T) { // G9
	b := newBench(t)
	const sessions = 12
	name := func(i int) string { return fmt.Sprintf("0290a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d%02d", i) }
	for i := 1; i < sessions; i++ {
		b.session(name(i), false)
	}
	polls, goOn := make(chan Session, 10_000), make(chan bool)
	var first sync.Once
	m, err := New(b.client, lease.Config{TTL: ttl, OpTimeout: ttl / 2, DiscoveryInterval: 100 * time.Millisecond}, Config{
		Interval: 50 * time.Millisecond, Timeout: 20 * time.Second, LongPolls: true,
		Poll: func(_ context.Context, s Session) error {
			polls <- s
			<-goOn
			return nil
		},
		Notify: func(e lease.Event) {
			b.notify(e)
			if e.Kind == lease.EventKept {
				first.Do(func() {
					close(goOn)
					<-time.After(50 * time.Millisecond) // polls return meanwhile
				})
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Stop() }()
	fences := map[string]int64{}
	for len(fences) < sessions {
		s := receive(t, "a poll of each", polls)
		fences[s.ID] = s.Fence
	}
	second, err := New(b.client, lease.Config{TTL: ttl, OpTimeout: ttl / 2, DiscoveryInterval: 100 * time.Millisecond},
		Config{Interval: time.Second, Poll: func(context.Context, Session) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Stop() }()
	asked := b.wait(lease.EventYield, time.Time{})
	if _, err := b.client.TxPipelined(t.Context(), func(pipe redis.Pipeliner) error {
		pipe.FlushAll(t.Context())
		for i := 1; i < sessions; i++ {
			pipe.Set(t.Context(), "session:"+name(i), fmt.Sprintf(`{"id":%q,"isPaused":false}`, name(i)), 0)
		}
		return pipe.Set(t.Context(), "session:"+id, fmt.Sprintf(`{"id":%q,"isPaused":false}`, id), 0).Err()
	}); err != nil {
		t.Fatal(err)
	}
	b.wait(lease.EventKept, asked.At)
	timeout := time.After(20 * time.Second)
	for left := fences; len(left) > 0; {
		select {
		case s := <-polls:
			if fence, waits := left[s.ID]; waits && s.Fence != fence {
				t.Errorf("%s: fence %d, want %d: the same term", s.ID, s.Fence, fence)
			}
			delete(left, s.ID)
		case <-timeout:
			t.Fatalf("not polled again within 20 s: %v", left)
		}
	}
}
