package redisstore_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redisstore/storetest"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) { // G1, G3, G9, G10
	t.Parallel()
	storetest.Run(t, func(t *testing.T, quarantine time.Duration) storetest.Harness {
		srv := redistest.Start(t, redistest.AppendOnly())
		return newHarness(t, srv, srv.Client(), redisstore.Options{Quarantine: quarantine})
	})
}

// TestConformanceCluster runs the suite on one cluster of one server, because a cluster takes two seconds to form.
func TestConformanceCluster(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.Cluster(), redistest.AppendOnly())
	storetest.Run(t, func(t *testing.T, quarantine time.Duration) storetest.Harness {
		srv.Flush()
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{srv.Addr()}})
		t.Cleanup(func() { _ = client.Close() })
		return newHarness(t, srv, client, redisstore.Options{
			LeasePrefix: "{poll}:lease:", NodePrefix: "{poll}:node:", EpochKey: "{poll}:epoch", Quarantine: quarantine,
		})
	})
}

// harness implements storetest.Harness on a real Redis.
type harness struct {
	*testing.T
	srv   *redistest.Server
	store *redisstore.Store

	mu    sync.Mutex
	heard []core.Notice
	more  chan struct{} // one token when heard has grown
}

func newHarness(t *testing.T, srv *redistest.Server, client redis.UniversalClient, opt redisstore.Options) *harness {
	t.Helper()
	opt.OpTimeout = 5 * time.Second
	store, err := redisstore.New(client, opt)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{T: t, srv: srv, store: store, more: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	up, ended := make(chan bool, 16), make(chan struct{})
	go func() {
		defer close(ended)
		store.Subscribe(ctx, time.Second, h.hear, func(err error) {
			select {
			case up <- err == nil:
			default: // nobody waits for it
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if !<-up {
		t.Fatal("the first word of a subscription is that it is down")
	}
	return h
}

func (h *harness) hear(n core.Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, n)
	select {
	case h.more <- struct{}{}:
	default:
	}
}

func (h *harness) Notices(n int) []core.Notice {
	h.Helper()
	timeout := time.NewTimer(10 * time.Second)
	defer timeout.Stop()
	for {
		h.mu.Lock()
		if got := h.heard; len(got) >= n {
			h.heard = nil
			h.mu.Unlock()
			return got
		}
		h.mu.Unlock()
		select {
		case <-h.more:
		case <-timeout.C:
			h.Fatalf("%d notices were not heard", n)
		}
	}
}

func (h *harness) Store() storetest.Store { return h.store }

func (h *harness) lease(id string) string { return h.store.Options().LeasePrefix + id }

func (h *harness) fence(id string) string {
	if key := h.lease(id); strings.Contains(key, "{") {
		return key + ":fence"
	}
	return "{" + h.lease(id) + "}:fence"
}

func (h *harness) Lease(id string) (string, time.Duration) {
	h.Helper()
	owner, _ := h.srv.Do("GET", h.lease(id)).(string)
	ttl, _ := h.srv.Do("PTTL", h.lease(id)).(int64)
	return owner, time.Duration(ttl) * time.Millisecond
}

func (h *harness) SetLease(id, owner string, ttl time.Duration) {
	h.Helper()
	if ttl == 0 {
		h.srv.Do("SET", h.lease(id), owner)
		return
	}
	h.srv.Do("SET", h.lease(id), owner, "PX", ttl.Milliseconds())
}

func (h *harness) DeleteLease(id string) { h.Helper(); h.srv.Do("DEL", h.lease(id)) }
func (h *harness) DeleteFence(id string) { h.Helper(); h.srv.Do("DEL", h.fence(id)) }
func (h *harness) SpoilLease(id string)  { h.Helper(); h.spoil(h.lease(id)) }
func (h *harness) SpoilFence(id string)  { h.Helper(); h.spoil(h.fence(id)) }

func (h *harness) spoil(key string) {
	h.Helper()
	h.srv.Do("DEL", key)
	h.srv.Do("RPUSH", key, "not", "ours")
}

func (h *harness) Flush()             { h.Helper(); h.srv.Flush() }
func (h *harness) Restart(empty bool) { h.Helper(); h.srv.Restart(empty) }
func (h *harness) ForgetScripts()     { h.Helper(); h.srv.Do("SCRIPT", "FLUSH") }

// Advance waits on Redis' own timer.
func (h *harness) Advance(d time.Duration) {
	h.Helper()
	h.srv.Do("BLPOP", "{poll}:nothing", strconv.FormatFloat((d+time.Millisecond).Seconds(), 'f', -1, 64))
}

func (h *harness) ReadOnly(on bool) {
	h.Helper()
	if h.srv.IsCluster() {
		h.Skip("a cluster of one cannot be made read-only")
	}
	if on {
		h.srv.ReadOnly()
	} else {
		h.srv.Writable()
	}
}

func (h *harness) Loading() {
	h.Helper()
	for i := range 200 {
		h.srv.Do("SET", "{poll}:ballast"+strconv.Itoa(i), strings.Repeat("x", 100))
	}
	h.srv.RestartLoading(10 * time.Millisecond)
	// Later checks of the same server need it back, so it must not be left loading.
	h.Cleanup(func() { h.srv.Restart(true) })
}
