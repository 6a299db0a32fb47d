package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// deaf is a proxy that, once armed, closes the connection instead of passing on the next reply.
type deaf struct {
	net.Listener
	upstream string
	mu       sync.Mutex
	cut      bool
	wg       sync.WaitGroup
}

func newDeaf(t *testing.T, upstream string) *deaf {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &deaf{Listener: l, upstream: upstream}
	d.wg.Add(1)
	go d.serve()
	return d
}

func (d *deaf) end() {
	_ = d.Close()
	d.wg.Wait()
}

func (d *deaf) cutReply() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = true
}

func (d *deaf) cuts() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	cut := d.cut
	d.cut = false
	return cut
}

func (d *deaf) serve() {
	defer d.wg.Done()
	for {
		down, err := d.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", d.upstream)
		if err != nil {
			_ = down.Close()
			continue
		}
		d.wg.Add(2)
		go func() {
			defer d.wg.Done()
			_, _ = io.Copy(up, down)
			_ = up.Close()
		}()
		go func() {
			defer d.wg.Done()
			defer func() { _, _ = down.Close(), up.Close() }()
			buf := make([]byte, 64<<10)
			for {
				n, err := up.Read(buf)
				if err != nil || d.cuts() {
					return
				}
				if _, err := down.Write(buf[:n]); err != nil {
					return
				}
			}
		}()
	}
}

// calls returns Redis' counts of script calls, by SHA and by text.
func calls(srv *redistest.Server) string {
	var lines []string
	for _, line := range strings.Split(srv.Do("INFO", "commandstats").(string), "\r\n") {
		if strings.HasPrefix(line, "cmdstat_eval") {
			line, _, _ = strings.Cut(line, ",")
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

// A client that retries would send an attempt twice, the second time with the first timestamp.
func TestAtMostOnce(t *testing.T) { // G1
	t.Parallel()
	t.Run("client", func(t *testing.T) {
		srv := redistest.Start(t)
		d := newDeaf(t, srv.Addr())
		t.Cleanup(d.end)
		c := client(t, redis.Options{Addr: d.Addr().String(), MaxRetries: 5})
		atMostOnce(t, srv, d, c, redisstore.Options{})
	})
	t.Run("cluster client", func(t *testing.T) {
		srv := redistest.Start(t, redistest.Cluster())
		d := newDeaf(t, srv.Addr())
		t.Cleanup(d.end)
		c := redis.NewClusterClient(&redis.ClusterOptions{
			MaxRedirects: 5,
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: d.Addr().String()}}}}, nil
			},
		})
		t.Cleanup(func() { _ = c.Close() })
		atMostOnce(t, srv, d, c, redisstore.Options{
			LeasePrefix: "{p}l:", NodePrefix: "{p}n:", EpochKey: "{p}e",
		})
	})
}

func atMostOnce(t *testing.T, srv *redistest.Server, d *deaf, c redis.UniversalClient, opt redisstore.Options) {
	s, epoch := bootstrapped(t, c, opt)
	if a := s.Do(t.Context(), acquire(epoch, "a", "x")); a.Failure != core.FailNone {
		t.Fatal(a.Text)
	}
	op := acquire(epoch, "a", "x")
	op.Kind = core.OpRenew
	s.Do(t.Context(), op) // so that Redis knows the script
	srv.Do("CONFIG", "RESETSTAT")
	d.cutReply()
	if a := s.Do(t.Context(), op); a.Failure != core.FailUnknown {
		t.Fatalf("an attempt whose reply was cut off: %+v, want FailUnknown", a)
	}
	if got := calls(srv); got != "cmdstat_evalsha:calls=1" {
		t.Fatalf("Redis was called %q, want one EVALSHA", got)
	}
	if a := s.Do(t.Context(), op); a.Failure != core.FailNone || a.Results[0].Outcome != core.OutRenewed {
		t.Fatalf("after the cut: %+v", a)
	}
}

// Of many concurrent attempts one succeeds, and fences grow in the order of ownership.
func TestManyAtOnce(t *testing.T) {
	srv := redistest.Start(t)
	s, epoch := bootstrapped(t, srv.Client(), redisstore.Options{PoolSize: 8})
	var owners, grants atomic.Int32
	var last atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			op := acquire(epoch, fmt.Sprint("n", i), "x")
			for range 200 {
				op.Kind = core.OpAcquire
				a := s.Do(t.Context(), op)
				if a.Failure != core.FailNone {
					t.Errorf("acquire: %s", a.Text)
					return
				}
				if a.Results[0].Outcome != core.OutGranted {
					continue
				}
				grants.Add(1)
				if n := owners.Add(1); n != 1 {
					t.Errorf("%d owners at once", n)
				}
				if a.Results[0].Fence <= last.Load() {
					t.Errorf("fence %d after %d", a.Results[0].Fence, last.Load())
				}
				op.Items[0].Fence = a.Results[0].Fence
				last.Store(op.Items[0].Fence)
				owners.Add(-1)
				op.Kind = core.OpRelease
				if a := s.Do(t.Context(), op); a.Failure != core.FailNone || a.Results[0].Outcome != core.OutReleased {
					t.Errorf("release: %+v", a)
				}
			}
		})
	}
	all.Wait()
	if grants.Load() < 8 {
		t.Fatalf("only %d grants", grants.Load())
	}
}

// recorder collects the events of a subscription.
type recorder struct {
	ups     chan error
	notices chan core.Notice
}

func subscribe(t *testing.T, s *redisstore.Store) recorder {
	r := recorder{make(chan error, 100), make(chan core.Notice, 100)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Subscribe(ctx, time.Second, func(n core.Notice) { r.notices <- n }, func(err error) { r.ups <- err })
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return r
}

func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	timeout := time.NewTimer(15 * time.Second)
	defer timeout.Stop()
	select {
	case v := <-c:
		return v
	case <-timeout.C:
		t.Fatalf("no %s", what)
		panic("unreachable")
	}
}

func TestSubscribeAgain(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := newStore(t, srv.Client(), redisstore.Options{OpTimeout: 2 * time.Second})
	r := subscribe(t, s)
	for _, hurt := range []struct {
		name string
		by   func()
	}{
		{"nothing", func() {}},
		{"a killed connection", func() { srv.Do("CLIENT", "KILL", "TYPE", "pubsub") }},
		{"a restart", func() { srv.Restart(true) }},
		{"a silence", func() {
			srv.Freeze()
			if receive(t, "word that the silent server is down", r.ups) == nil {
				t.Fatal("a silent server is said to be up")
			}
			srv.Thaw()
			r.ups <- errors.New("silent") // as the others find it
		}},
	} {
		hurt.by()
		if hurt.name != "nothing" && receive(t, "word of the loss: "+hurt.name, r.ups) == nil {
			t.Fatalf("%s: up without down", hurt.name)
		}
		for receive(t, "word of the subscription after "+hurt.name, r.ups) != nil {
		}
		epoch := s.Do(t.Context(), &core.Op{Kind: core.OpObserve}).Epoch
		s.Do(t.Context(), &core.Op{Kind: core.OpLeave, Epoch: epoch, Owner: "me"})
		if n := receive(t, "notice after "+hurt.name, r.notices); n.Kind != core.NoticeLeft || n.From != "me" {
			t.Fatalf("%s: heard %+v", hurt.name, n)
		}
		if n := receive(t, "its number after "+hurt.name, r.notices); n.Kind != core.NoticeNumber || n.Number == 0 {
			t.Fatalf("%s: heard %+v", hurt.name, n)
		}
	}
}
