// Package leasetest is for tests of code that holds leases. It provides a Redis
// in memory on a fake clock, and three faults that happen to leases in
// production. Keepers and managers of lease, pollers of lease/poll and
// elections of lease/election run on it unchanged, with the rules and scripts
// of production.
//
// # The clock
//
// The fake clock belongs to a bubble of [testing/synctest]: a test runs in
// [synctest.Test], where [time.Sleep] advances the time at once. The instances,
// their callbacks and the TTLs of the Redis all follow it.
//
//	func TestNightly(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			r := leasetest.New(t)
//			keeper, err := lease.NewKeeper(r.Client(), lease.Config{})
//			// … start it, and the code under test
//			r.Lose("lease:name:nightly")
//			// … the code under test has stopped its work
//		})
//	}
//
// A test must stop everything that it starts before it ends, or the bubble
// panics ("deadlock"). A test that waits for an event that never comes does not
// end, because renewals keep the clock going; go test -timeout shows where it
// waits.
//
// # Keys
//
// The key in Redis names a lease: "lease:name:nightly" for the lease "nightly"
// of a keeper with the default Config.LeasePrefix, and "poll:lease:" with the
// session's ID for a lease of a manager or a poller. For an election it is the
// leader key, "election:leader".
//
// # What it cannot simulate
//
// A Redis that is slow, refuses, or cannot be reached; replicas; a cluster.
// INFO returns only a few lines, as of a master without replicas.
package leasetest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/inner"
)

// Redis is a Redis in memory, for the instances of one test. Any goroutine may
// use Client. Only one goroutine at a time may call Lose, Take and Forget, and
// never from an instance's callback: they wait until all their effects at this
// instant have happened, callbacks included. They take no time of the bubble,
// and end the test (Fatal) if they fail.
type Redis struct {
	t      testing.TB
	m      *miniredis.Miniredis
	client *redis.Client

	mu        sync.Mutex
	instances []inner.Instance
	closed    bool // m is closed, so nobody may dial it
	forgot    bool // Forget was called: New declares nothing new any more
}

// New returns a new Redis, which ends with the test. Call it in a bubble of
// testing/synctest. It grants leases at once. After Forget, even before the
// first instance, it grants nothing for one TTL.
func New(t testing.TB) *Redis {
	t.Helper()
	inBubble(t)
	r := &Redis{t: t, m: miniredis.NewMiniRedis()}
	r.m.ClockTTL(true)
	addr := fmt.Sprintf("192.0.2.1:%d", count.Add(1)) // a documentation address, never dialed
	r.client = redis.NewClient(&redis.Options{Addr: addr, Dialer: r.dial, DisableIdentity: true, Protocol: 2})
	byAddr.Store(addr, r)
	t.Cleanup(func() {
		byAddr.Delete(addr)
		_ = r.client.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.closed = true
		r.m.Close()
	})
	return r
}

func inBubble(t testing.TB) {
	t.Helper()
	defer func() {
		if recover() != nil {
			t.Fatal("leasetest.New must be called in a bubble: run the test in synctest.Test (testing/synctest)")
		}
	}()
	synctest.Wait()
}

// Client returns the client for lease.NewManager, lease.NewKeeper, poll.New,
// election.New and for any other data that the tested code keeps in this Redis,
// such as a poller's sessions. It is closed at the end of the test.
func (r *Redis) Client() *redis.Client { return r.client }

// Lose makes the owner lose the lease now, as when the key vanishes in Redis.
// No work may begin under the lease any more, and its contexts, listeners and
// callbacks get the cause "gone".
//
// The lease is then free. An instance that requests it may acquire it at once
// under a higher fence, even the one that has just lost it. An instance that
// already waits notices only when the lease would have expired. Lose also frees
// a lease that Take gave to another instance.
//
// It is an error to lose a lease without an owner.
func (r *Redis) Lose(key string) {
	r.t.Helper()
	if fence := r.settled(key); fence == 0 && !r.m.Exists(key) {
		r.t.Fatalf("leasetest: Lose(%q): nobody has this lease; there are the keys %q", key, r.m.Keys())
	}
	r.end(key, func() { r.m.Del(key) })
}

// Take gives the lease to another, simulated instance with the ID owner, for
// the duration d. The present owner loses the lease at once, as with Lose,
// with the cause "taken" and the ID. Attempts to acquire it return that it is
// held, the holder, and the remaining time.
//
// The simulated instance does not renew: at the end of d on the bubble's
// clock, waiting instances may acquire the lease. Lose ends this ownership
// earlier. Another Take changes the owner or the end.
func (r *Redis) Take(key, owner string, d time.Duration) {
	r.t.Helper()
	if owner == "" || d < time.Millisecond {
		r.t.Fatalf("leasetest: Take(%q) by %q for %v: an owner has an ID and keeps it for 1ms at least", key, owner, d)
	}
	r.settled(key)
	r.end(key, func() {
		if err := r.m.Set(key, owner); err != nil {
			r.t.Fatalf("leasetest: Take(%q): %v", key, err)
		}
		r.m.SetTTL(key, d)
	})
	if fence := r.fence(key); fence != 0 {
		r.t.Fatalf("leasetest: Take(%q): an instance still has it, under the fence %d", key, fence)
	}
}

// Forget makes Redis lose all its data, as FLUSHALL does: leases, sessions,
// everything. As in production, an instance notices at its next request, at the
// latest at its next renewal. It then reasserts its leases, and keeps them.
// Redis grants nothing else for one TTL, the quarantine (lease.ErrQuarantine).
// A test must write a poller's sessions again.
func (r *Redis) Forget() {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	r.forgot = true
	r.mu.Unlock()
	r.m.FlushAll()
}

// settled makes a lease's owner notice all changes in Redis, and returns its fence, 0 if nobody owns the lease. An owner that has not
// noticed a Forget would otherwise reassert the lease over the change.
func (r *Redis) settled(key string) int64 {
	synctest.Wait()
	if r.fence(key) != 0 {
		r.renew(key)
	}
	return r.fence(key)
}

// end ends the current term of key with change, which the owner notices when it renews.
func (r *Redis) end(key string, change func()) {
	r.t.Helper()
	before := r.fence(key)
	change()
	r.renew(key)
	if before != 0 && r.fence(key) == before {
		r.t.Fatalf("leasetest: the owner of %q has not heard that it lost it: is it called back at this moment?", key)
	}
}

func (r *Redis) renew(key string) {
	for _, i := range r.made() {
		i.Renew(key)
	}
	synctest.Wait()
}

func (r *Redis) fence(key string) int64 {
	for _, i := range r.made() {
		if fence := i.Fence(key); fence != 0 {
			return fence
		}
	}
	return 0
}

func (r *Redis) made() []inner.Instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.instances
}

// info is the answer to the INFO that instances send to a Redis before they use it.
const info = "# Server\r\nredis_version:7.4.0\r\nrun_id:0000000000000000000000000000000000000001\r\n# Replication\r\nrole:master\r\n"

func (r *Redis) dial(context.Context, string, string) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed { // a stopping instance does not wait for its dials
		return nil, net.ErrClosed
	}
	conn, err := r.m.Dial()
	if err != nil {
		return nil, err
	}
	r.m.Server().SetPreHook(func(p *server.Peer, cmd string, _ ...string) bool {
		if cmd != "INFO" {
			return false
		}
		p.WriteBulk(info)
		return true
	})
	return conn, nil
}

// byAddr finds the Redis of an instance: a store makes its own client, with the address of the given one.
var (
	byAddr sync.Map
	count  atomic.Int64
)

func init() {
	inner.Made = func(client any, i inner.Instance) {
		c, ok := client.(interface{ Options() *redis.Options })
		if !ok {
			return
		}
		if r, ok := byAddr.Load(c.Options().Addr); ok {
			r := r.(*Redis)
			r.mu.Lock()
			r.instances = append(r.instances, i)
			forgot := r.forgot
			r.mu.Unlock()
			if !forgot {
				_ = i.Bootstrap(context.Background()) // refused once a lease lives, when it is not needed
			}
		}
	}
}
