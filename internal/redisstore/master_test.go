package redisstore_test

import (
	"context"
	"fmt"
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

// ours is the client name of the store's connections.
const ours = "ours"

// named is two independent servers, and a sentinel that names one of them the master.
type named struct {
	t                 *testing.T
	old, new, speaker *redistest.Server
}

func newNamed(t *testing.T) *named {
	n := &named{t: t, old: redistest.Start(t), new: redistest.Start(t)}
	n.speaker = redistest.StartSentinel(t, n.old)
	return n
}

func (n *named) client() *redis.Client {
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "boss", SentinelAddrs: []string{n.speaker.Addr()}, ClientName: ours,
	})
	n.t.Cleanup(func() { _ = c.Close() })
	return c
}

// switched makes the sentinel name the other server, without announcing it.
func (n *named) switched() {
	n.t.Helper()
	n.speaker.Name(n.new)
}

// connections counts the store's connections to a server.
func connections(s *redistest.Server) int {
	return strings.Count(fmt.Sprint(s.Do("CLIENT", "LIST")), "name="+ours+" ")
}

// within fails the test unless so becomes true in time.
func within(t *testing.T, limit time.Duration, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); !so(); <-tick.C {
		if time.Since(begin) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// The store of a failover client finds the master that the client's sentinels name.
func TestFailoverClient(t *testing.T) {
	n := newNamed(t)
	s, epoch := bootstrapped(t, n.client(), redisstore.Options{})
	if a := s.Do(t.Context(), acquire(epoch, "a", "x")); a.Failure != core.FailNone || a.Results[0].Outcome != core.OutGranted {
		t.Fatalf("acquire: %+v", a)
	}
	if got := n.old.Do("GET", "poll:lease:x"); got != "a" {
		t.Fatalf("the master holds %v", got)
	}
}

// When the sentinel announces a switch, the store closes all connections to the deposed master, even those in use and the subscription's.
// The next operation reaches the new master.
func TestSwitchIsHeard(t *testing.T) { // G1
	const seldom = time.Minute // the store then polls the sentinels only every ten seconds
	for _, tt := range []struct {
		name       string
		quarantine time.Duration
		word       func(n *named, s *redisstore.Store, epoch string)
	}{
		{"by asking", 600 * time.Millisecond, func(*named, *redisstore.Store, string) {}},
		{"from the sentinels' own messages", seldom, func(n *named, _ *redisstore.Store, _ string) {
			host, port, _ := net.SplitHostPort(n.new.Addr())
			for _, master := range []string{"127.0.0.1,1", host + "," + port} {
				n.old.Do("PUBLISH", "__sentinel__:hello", "127.0.0.1,26379,0123456789abcdef,1,boss,"+master+",1")
			}
		}},
		{"from a server that calls itself a replica", seldom, func(n *named, s *redisstore.Store, epoch string) {
			n.old.ReadOnly()
			s.Do(t.Context(), acquire(epoch, "a", "x"))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNamed(t)
			s, epoch := bootstrapped(t, n.client(), redisstore.Options{Quarantine: tt.quarantine})
			r := subscribe(t, s)
			receive(t, "subscription", r.ups)
			var crowd sync.WaitGroup
			for range 8 {
				crowd.Go(func() { s.Do(t.Context(), &core.Op{Kind: core.OpObserve}) })
			}
			crowd.Wait()
			hears := func() bool {
				return strings.Contains(fmt.Sprint(n.old.Do("PUBSUB", "CHANNELS")), "__sentinel__:hello")
			}
			within(t, 20*time.Second, "the sentinels' channel is heard", hears)
			n.switched()
			tt.word(n, s, epoch)
			within(t, 8*time.Second, "no connection to the old master", func() bool { return connections(n.old) == 0 })
			if a := s.Do(t.Context(), acquire("", "a", "x")); a.Failure != core.FailNone || a.Epoch == "" {
				t.Fatalf("after the switch: %+v", a)
			}
			if n.new.Do("EXISTS", "poll:epoch") != int64(1) || connections(n.old) != 0 {
				t.Fatal("the operation after the switch did not go to the new master")
			}
			receive(t, "end of the subscription", r.ups)
			receive(t, "subscription at the new master", r.ups)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			within(t, 20*time.Second, "no connection after Close", func() bool { return connections(n.new) == 0 })
		})
	}
}

// If neither the master nor a sentinel answers, an operation fails in time, and its error names the sentinels and their errors. A hanging
// sentinel has no error of its own.
func TestMuteSentinelsAreNamed(t *testing.T) {
	n := newNamed(t)
	opt := redisstore.Options{OpTimeout: 300 * time.Millisecond}
	s, _ := bootstrapped(t, n.client(), opt)
	broken := func(what string, words ...string) {
		n.old.Do("CLIENT", "KILL", "TYPE", "normal")
		within(t, 30*time.Second, what, func() bool {
			begin := time.Now()
			a := s.Do(t.Context(), &core.Op{Kind: core.OpObserve})
			if a.Failure == core.FailNone {
				t.Fatalf("%s: answered", what)
			}
			return a.Failure == core.FailUnsent && time.Since(begin) < opt.OpTimeout &&
				strings.Contains(a.Text, "no sentinel answers: "+strings.Join(words, ""))
		})
	}
	n.speaker.Freeze()
	broken("one that hangs")
	n.speaker.Thaw()
	within(t, 30*time.Second, "it answers again", func() bool {
		return s.Do(t.Context(), &core.Op{Kind: core.OpObserve}).Failure == core.FailNone
	})
	n.speaker.Kill()
	broken("one that has ended", "dial tcp ", n.speaker.Addr(), ": ")
}

// If the sentinels do not answer, the store stays with its master.
func TestSilentSentinels(t *testing.T) {
	n := newNamed(t)
	s := newStore(t, n.client(), redisstore.Options{Quarantine: 60 * time.Millisecond}) // asks every ten milliseconds
	before := s.Do(t.Context(), &core.Op{Kind: core.OpObserve})
	n.speaker.Kill()
	for range 20 {
		a := s.Do(t.Context(), &core.Op{Kind: core.OpObserve})
		if a.Failure != core.FailNone || a.Epoch != before.Epoch {
			t.Fatalf("while no sentinel answers: %+v", a)
		}
		within(t, 20*time.Second, "a while has passed", func() bool { return n.old.Do("PING") == "PONG" })
	}
}

// The store replaces a hanging sentinel, even if an operation has less time than go-redis needs for that.
func TestHangingSentinel(t *testing.T) {
	n := newNamed(t)
	hanging := redistest.StartSentinel(t, n.old)
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "boss", SentinelAddrs: []string{hanging.Addr(), n.speaker.Addr()}, ClientName: ours, MaxRetries: -1,
		DialTimeout: 200 * time.Millisecond, ReadTimeout: 200 * time.Millisecond,
	})
	t.Cleanup(func() { _ = c.Close() })
	s := newStore(t, c, redisstore.Options{Quarantine: 600 * time.Millisecond, OpTimeout: 50 * time.Millisecond})
	within(t, 20*time.Second, "an answer", func() bool {
		return s.Do(t.Context(), &core.Op{Kind: core.OpObserve}).Failure == core.FailNone
	})
	heard := func(sentinel *redistest.Server) bool { // two channels, by go-redis
		return strings.Contains(fmt.Sprint(sentinel.Do("CLIENT", "LIST")), " sub=2 ")
	}
	within(t, 20*time.Second, "a sentinel that is asked", func() bool { return heard(hanging) || heard(n.speaker) })
	if heard(n.speaker) {
		hanging, n.speaker = n.speaker, hanging
	}
	hanging.Freeze()
	defer hanging.Thaw()
	n.switched()
	within(t, 20*time.Second, "no connection to the old master", func() bool { return connections(n.old) == 0 })
}

// If Redis denies the sentinels' channel, the store does not subscribe again. It notices a switch at its next dial.
func TestForbiddenHello(t *testing.T) {
	n := newNamed(t)
	n.old.Do("ACL", "SETUSER", "default", "resetchannels", "&poll:notify")
	s := newStore(t, n.client(), redisstore.Options{Quarantine: 60 * time.Millisecond}) // asks every ten milliseconds
	s.Do(t.Context(), &core.Op{Kind: core.OpObserve})
	within(t, 20*time.Second, "refused", func() bool { return subscriptionsRefused(n.old) > 0 })
	asked := accepted(n.old)
	within(t, 20*time.Second, "ten looks", func() bool { return accepted(n.old) > asked+40 }) // some of them this test's own
	if got := subscriptionsRefused(n.old); got > 2 {                                          // go-redis may send it twice
		t.Fatalf("%d subscriptions refused; the first one says it all", got)
	}
	n.switched()
	within(t, 20*time.Second, "no connection to the old master", func() bool { return connections(n.old) == 0 })
}

// If a server refuses the sentinels' channel for a while, for example during loading, the store subscribes again.
func TestHelloIsHeardAfterAPassingRefusal(t *testing.T) {
	n := newNamed(t)
	var refusals atomic.Int32
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "boss", SentinelAddrs: []string{n.speaker.Addr()},
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return &loading{Conn: conn, refusals: &refusals}, err
		},
	})
	t.Cleanup(func() { _ = c.Close() })
	s := newStore(t, c, redisstore.Options{Quarantine: 60 * time.Millisecond})
	s.Do(t.Context(), &core.Op{Kind: core.OpObserve})
	within(t, 20*time.Second, "the sentinels' channel is asked for again", func() bool { return refusals.Load() > refused })
}

// refused is how often a connection refuses the sentinels' channel, more often than go-redis itself retries.
const refused = 8

// loading is a connection to a server that refuses the sentinels' channel with LOADING for a while.
type loading struct {
	net.Conn

	refusals *atomic.Int32
	said     string
}

func (c *loading) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "__sentinel__:hello") && c.refusals.Add(1) <= refused {
		c.said = "-LOADING Redis is loading the dataset in memory\r\n"
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *loading) Read(b []byte) (int, error) {
	if n := copy(b, c.said); n > 0 {
		c.said = c.said[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

func subscriptionsRefused(s *redistest.Server) int {
	_, rest, _ := strings.Cut(fmt.Sprint(s.Do("INFO", "commandstats")), "cmdstat_subscribe:")
	_, rest, _ = strings.Cut(rest, "rejected_calls=")
	n := 0
	_, _ = fmt.Sscanf(rest, "%d", &n)
	return n
}

// accepted returns how many connections a server has accepted.
func accepted(s *redistest.Server) int {
	_, rest, _ := strings.Cut(fmt.Sprint(s.Do("INFO", "stats")), "total_connections_received:")
	n := 0
	_, _ = fmt.Sscanf(rest, "%d", &n)
	return n
}

// A client derived from a store's own client, as for the bus of intents, also follows the master.
func TestOwnClientOfOwnClient(t *testing.T) {
	n := newNamed(t)
	c := redis.UniversalClient(n.client())
	for range 2 {
		own, err := redisstore.OwnClient(c, redisstore.Options{Quarantine: 600 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = own.Close() })
		if err := own.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		c = own
	}
	n.switched()
	within(t, 20*time.Second, "no connection to the old master", func() bool { return connections(n.old) == 0 })
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil || n.new.Do("GET", "k") != "v" {
		t.Fatalf("after the switch: %v", err)
	}
}
