package poll

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/leasetest"
)

// network connects an instance to its Redis.
type network struct {
	mu    sync.Mutex
	down  bool
	conns []net.Conn
}

// between puts n before r's client: new connections go through n.
func (n *network) between(r *leasetest.Redis) {
	o := r.Client().Options()
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.down {
			return nil, errors.New("network down")
		}
		conn, err := dial(ctx, network, addr)
		if err == nil {
			n.conns = append(n.conns, conn)
		}
		return conn, err
	}
}

// cut breaks all connections and prevents new ones until mend.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = true
	for _, conn := range n.conns {
		_ = conn.Close()
	}
	n.conns = nil
}

func (n *network) mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = false
}

// A failed renewal ends the poll, and no poll begins until a renewal succeeds or the lease is acquired again. The clock is a bubble's,
// because on a busy machine a renewal may fail before the outage, and polls rightly begin after the next one.
func TestOutageCancelsThePollAndNoneBegins(t *testing.T) { // G4
	for _, c := range []struct {
		name   string
		outage time.Duration
		until  lease.EventKind // polls begin again
	}{
		{"until it is renewed", 2 * ttl / 3, lease.EventRenewed},
		{"until it is acquired again", 3 * ttl, lease.EventAcquired},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { outage(t, c.outage, c.until) })
		})
	}
}

func outage(t *testing.T, lasts time.Duration, until lease.EventKind) {
	r, n, h := leasetest.New(t), &network{}, &happened{}
	if err := admin.Bootstrap(t.Context(), r.Client(), lease.ManagerConfig{Config: lease.Config{TTL: ttl}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Client().Set(t.Context(), DefaultSessionPrefix+id, `{"id":"`+id+`"}`, 0).Err(); err != nil {
		t.Fatal(err)
	}
	n.between(r)
	ended := make(chan error, 100)
	m, err := New(r.Client(), lease.Config{TTL: ttl}, Config{
		Interval: 50 * time.Millisecond, Timeout: time.Hour, LongPolls: true, DrainTimeout: time.Second,
		Poll: func(ctx context.Context, _ Session) error {
			h.add("poll")
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return ctx.Err()
		},
		Notify: func(e lease.Event) { h.add(e.Kind.String()) },
	})
	if err == nil {
		err = m.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Stop() }()
	pass := func(d time.Duration) {
		<-time.After(d)
		synctest.Wait()
	}
	pass(ttl)
	before := len(h.all())
	n.cut()
	pass(lasts)
	if cause := <-ended; !errors.Is(cause, ErrUncertain) {
		t.Errorf("the poll was ended by %v, want ErrUncertain", cause)
	}
	n.mend()
	pass(2 * ttl)
	all := h.all()[before:]
	failed := slices.Index(all, lease.EventUncertain.String())
	again := slices.Index(all, until.String())
	polled := slices.Index(all, "poll")
	if failed < 0 || again < failed || polled < again {
		t.Errorf("want %v, %v and then a poll; happened: %v", lease.EventUncertain, until, all)
	}
}

// happened records what an instance reported and did, in order.
type happened struct {
	mu   sync.Mutex
	what []string
}

func (h *happened) add(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.what = append(h.what, what)
}

func (h *happened) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.what)
}
