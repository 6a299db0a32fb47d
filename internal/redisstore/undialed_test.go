package redisstore

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/servetest"
)

// Each attempt dials, however many dials have failed. A pool that gave up would delay an owner that reasserts its leases.
func TestEachAttemptDials(t *testing.T) { // G9
	const attempts = 20
	var dials atomic.Int32
	refuse := func(_ context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("nobody is at " + addr)}
	}
	opt := Options{Quarantine: time.Hour, PoolSize: 1, LeasePrefix: "{p}l:", NodePrefix: "{p}n:", EpochKey: "{p}e"}
	full := opt.withDefaults()
	one := redis.NewClient(&redis.Options{Addr: "there:1", Dialer: refuse})
	led := newMasterClient(single(&redis.Options{Addr: failoverAddr}, &full), refuse, &full)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		Dialer: refuse,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: "there:1"}}}}, nil
		},
	})
	for name, client := range map[string]redis.UniversalClient{"one server": one, "behind Sentinel": led, "a cluster": cluster} {
		t.Run(name, func(t *testing.T) {
			defer func() { _ = client.Close() }()
			store, err := New(client, opt)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = store.Close() }()
			dials.Store(0)
			for range attempts {
				if a := store.Do(t.Context(), &core.Op{Kind: core.OpObserve}); a.Failure != core.FailUnsent {
					t.Fatalf("%v: %s", a.Failure, a.Text)
				}
			}
			if n := dials.Load(); n < attempts {
				t.Errorf("%d attempts dialled %d times", attempts, n)
			}
		})
	}
}

// A Redis without room for a client says so and closes the connection. The attempt counts as unsent, and its error has Redis' text.
func TestNoRoomForAClientIsNamed(t *testing.T) {
	addr := servetest.Serve(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1<<10)) // a reset would discard the reply
		_, _ = io.WriteString(c, "-ERR max number of clients reached\r\n")
	})
	for _, user := range []string{"", "app"} {
		client := redis.NewClient(&redis.Options{Addr: addr, Username: user, Password: user})
		defer client.Close()
		store, err := New(client, Options{OpTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		a := store.Do(t.Context(), &core.Op{Kind: core.OpObserve})
		if a.Failure != core.FailUnsent || !strings.Contains(a.Text, "max number of clients reached") {
			t.Errorf("as %q: %v: %s", user, a.Failure, a.Text)
		}
	}
}
