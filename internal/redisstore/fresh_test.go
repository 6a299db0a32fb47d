package redisstore_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// A Redis without signs of use grants leases at once. Every sign costs the whole quarantine, and the reason names the sign.
func TestNewRedisLong(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for servers to have run for two seconds")
	}
	t.Parallel()
	evalsha := func(srv *redistest.Server) {
		sha := srv.Do("SCRIPT", "LOAD", "return 1")
		srv.Do("EVALSHA", sha, 0)
	}
	do := func(args ...any) func(*redistest.Server) { return func(srv *redistest.Server) { srv.Do(args...) } }
	fails := func(args ...any) func(*redistest.Server) {
		return func(srv *redistest.Server) { _ = srv.Client().Do(context.Background(), args...).Err() }
	}
	for name, c := range map[string]struct {
		use  func(*redistest.Server)
		want string // part of the reason; "": no quarantine
	}{
		"never used":            {func(*redistest.Server) {}, ""},
		"plain commands":        {func(srv *redistest.Server) { srv.Do("SET", "x", 1); srv.Do("CONFIG", "GET", "maxmemory") }, ""},
		"a script that failed":  {fails("EVAL", "return redis.call('GET')", 0), ""},
		"an unknown script":     {fails("EVALSHA", strings.Repeat("0", 40), 0), ""},
		"a loaded script":       {do("SCRIPT", "LOAD", "return 1"), ""},
		"a script":              {do("EVAL", "return 1", 0), "it has executed EVAL"},
		"a script by its hash":  {evalsha, "it has executed EVALSHA"},
		"a script that reads":   {do("EVAL_RO", "return 1", 0), "it has executed EVAL_RO"},
		"a flush":               {do("FLUSHALL"), "it has executed FLUSHALL"},
		"a flush of a database": {do("FLUSHDB"), "it has executed FLUSHDB"},
		"a swap":                {do("SWAPDB", 0, 1), "it has executed SWAPDB"},
		"reset statistics":      {do("CONFIG", "RESETSTAT"), "it has executed CONFIG|RESETSTAT"},
		"a debugger":            {do("DEBUG", "SLEEP", 0), "it has executed DEBUG"},
		"a restored key": {func(srv *redistest.Server) {
			srv.Do("SET", "x", 1)
			srv.Do("RESTORE", "y", 0, srv.Do("DUMP", "x"))
		}, "it has executed RESTORE"},
		"a cluster's command": {fails("CLUSTER", "INFO"), "it has executed CLUSTER|INFO"},
		"a replica once": {func(srv *redistest.Server) {
			srv.ReadOnly()
			srv.Writable()
		}, "it has executed REPLICAOF"},
		"the lease":    {do("SET", "poll:lease:x", "b"), "the key poll:lease:x exists"},
		"the fence":    {do("SET", "{poll:lease:x}:fence", 7), "the key {poll:lease:x}:fence exists"},
		"other's type": {do("RPUSH", "poll:lease:x", "b"), "the key poll:lease:x exists"},
		"the record":   {do("HSET", "poll:epoch:group", "quarantine", 1), "the key poll:epoch:group exists"},
		"no INFO":      {do("ACL", "SETUSER", "default", "-info"), "INFO is denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t, redistest.Unused(), redistest.Args("--enable-debug-command", "yes"))
			s := newStore(t, srv.Client(), redisstore.Options{Quarantine: time.Second})
			srv.Age()
			c.use(srv)
			a := s.Do(t.Context(), acquire("", "a", "x"))
			if a.Failure != core.FailNone || (a.Quarantine == 0) != (c.want == "") {
				t.Fatalf("%+v, want a quarantine: %v", a, c.want != "")
			}
			if doubt := srv.Client().HGet(t.Context(), "poll:epoch:group", "doubt").Val(); doubt != strings.TrimSpace(a.Epoch+" "+c.want) && c.want != "" {
				t.Errorf("doubt: %q, want %q", doubt, c.want)
			}
			if a = s.Do(t.Context(), acquire(a.Epoch, "a", "x")); c.want == "" && a.Results[0].Outcome != core.OutGranted {
				t.Errorf("%+v, want a grant", a)
			}
		})
	}
}

// An instance that has known an epoch, or may have reached another server, waits for the whole quarantine. So does every instance on a
// server with another life.
func TestOldKnowledgeIsNoNewRedisLong(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for servers to have run for two seconds")
	}
	t.Parallel()
	opt := redisstore.Options{Quarantine: time.Second}
	tunnel := func(srv *redistest.Server) *redis.Client {
		return client(t, redis.Options{Addr: "127.0.0.1:1", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", srv.Addr())
			return elsewhere{conn}, err
		}})
	}
	far := func(srv *redistest.Server) *redis.Client {
		return client(t, redis.Options{Addr: "db.example:6379", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", srv.Addr())
		}})
	}
	begin := func(t *testing.T, c *redis.Client, opt redisstore.Options) core.Answer {
		t.Helper()
		a := newStore(t, c, opt).Do(t.Context(), acquire("", "a", "x"))
		if a.Failure != core.FailNone {
			t.Fatal(a.Text)
		}
		return a
	}
	for name, c := range map[string]struct {
		client func(*redistest.Server) *redis.Client
		new    bool // AssumeNew
		waits  bool
	}{
		"loopback":                  {(*redistest.Server).Client, false, false},
		"another host":              {far, false, true},
		"another host, assumed new": {far, true, false},
		"a tunnel":                  {tunnel, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t, redistest.Unused())
			srv.Age()
			o := opt
			o.AssumeNew = c.new
			if a := begin(t, c.client(srv), o); (a.Quarantine > 0) != c.waits {
				t.Errorf("a quarantine of %v", time.Duration(a.Quarantine))
			}
		})
	}
	t.Run("known", func(t *testing.T) {
		t.Parallel()
		one, other := redistest.Start(t, redistest.Unused()), redistest.Start(t, redistest.Unused())
		one.Age()
		other.Age()
		at := one.Addr()
		moving := client(t, redis.Options{Addr: "127.0.0.1:1", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", at)
		}})
		s := newStore(t, moving, opt)
		if a := s.Do(t.Context(), acquire("", "a", "x")); a.Quarantine > 0 {
			t.Fatalf("%+v", a)
		}
		at = other.Addr()
		one.Kill()
		for { // until the connection is known to be gone
			a := s.Do(t.Context(), acquire("", "a", "x"))
			if a.Failure == core.FailNone {
				if a.Quarantine == 0 {
					t.Errorf("%+v, want a quarantine", a)
				}
				return
			}
			if t.Context().Err() != nil {
				t.Fatal(a.Text)
			}
		}
	})
	t.Run("an epoch of another life", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t, redistest.Unused(), redistest.AppendOnly())
		srv.Do("SET", "poll:epoch", "another 0")
		srv.Age()
		if a := begin(t, srv.Client(), opt); a.Quarantine == 0 {
			t.Errorf("%+v, want a quarantine", a)
		}
	})
}

// elsewhere is a connection that leads to another host.
type elsewhere struct{ net.Conn }

func (elsewhere) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)} }

// A Redis that has just started may have lost earlier grants, so the rest of the quarantine applies.
func TestYoungRedisWaitsForTheRest(t *testing.T) {
	srv := redistest.Start(t, redistest.Unused())
	s := newStore(t, srv.Client(), redisstore.Options{Quarantine: time.Hour})
	why := s.Begin(t.Context())
	if !strings.HasPrefix(why, "it was started ") {
		t.Fatalf("Begin: %q", why)
	}
	a := s.Do(t.Context(), &core.Op{Kind: core.OpObserve})
	if a.Quarantine == 0 || a.Group != int64(time.Hour) {
		t.Fatalf("%+v, want a quarantine and the group's", a)
	}
	other := newStore(t, srv.Client(), redisstore.Options{Quarantine: time.Hour})
	if again := other.Begin(t.Context()); again != why {
		t.Errorf("Begin of another instance: %q, want %q", again, why)
	}
}
