package leasetest_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/leasetest"
	"github.com/leasestorm/leasestorm/lease/poll"
)

// TestListenerThatPanics: it misses that event, and nobody else anything: polls begin and end, and leases are given back, as without it.
func TestListenerThatPanics(t *testing.T) {
	for kind, then := range map[lease.EventKind]func(r *leasetest.Redis){
		lease.EventAcquired: func(*leasetest.Redis) {},
		lease.EventLost:     func(r *leasetest.Redis) { r.Take("poll:lease:"+session, "another", time.Hour) },
		lease.EventYield:    func(r *leasetest.Redis) { r.Client().Del(context.Background(), "session:"+session) },
	} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, p := bootstrapped(t), &polls{}
				write(t, r)
				told := 0
				m, err := poll.New(r.Client(), lease.Config{InstanceID: "a", Logger: zap.NewNop()}, poll.Config{
					Poll: func(ctx context.Context, s poll.Session) error {
						ctx, end := context.WithTimeout(ctx, 50*time.Second)
						defer end()
						return p.poll(ctx, s)
					}, LongPolls: true, Timeout: 24 * time.Hour, DrainTimeout: time.Second,
					Notify: func(e lease.Event) {
						if e.Kind == kind {
							told++
							panic("a listener")
						}
					}})
				must(t, err, func() error { return m.Start(t.Context()) })
				pass(time.Minute)
				if p.fence.Load() == 0 {
					t.Fatal("the session is not polled")
				}
				then(r)
				pass(time.Minute)
				if told == 0 {
					t.Error("the listener was not told")
				}
				owner := r.Client().Get(t.Context(), "poll:lease:"+session).Val()
				if kind == lease.EventLost && !strings.Contains(p.why(), lease.ErrLost.Error()) {
					t.Errorf("the poll ended: %s", p.why())
				}
				if kind != lease.EventAcquired && (owner == "a" || len(m.Polled()) > 0) {
					t.Errorf("the lease is %q's; polled %v", owner, m.Polled())
				}
				must(t, m.Stop())
			})
		})
	}
}
