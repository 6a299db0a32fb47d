package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// MasterName is the name under which a sentinel knows the master.
const MasterName = "boss"

// settleTimeout bounds the wait for servers to find each other.
const settleTimeout = 2 * time.Minute

// StartSentinel starts a sentinel that names a master and never promotes another server by itself; see Start.
func StartSentinel(t testing.TB, master *Server) *Server {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, "sentinel monitor %s 127.0.0.1 %d 2\n", MasterName, master.port), 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s := &Server{t: t, binary: find(t), dir: t.TempDir(), sentinel: conf}
	return s.start("monitor master")
}

// Name has a sentinel name another master.
func (s *Server) Name(master *Server) {
	s.t.Helper()
	s.Do("SENTINEL", "REMOVE", MasterName)
	s.Do("SENTINEL", "MONITOR", MasterName, "127.0.0.1", master.port, 2)
}

// Replicated is a master, two replicas, and a sentinel that names the master. The test decides when another server becomes the master;
// sentinels that decide are those of sim/real.
type Replicated struct {
	Servers   []*Server // the first is the master at the start
	Sentinels []*Server

	t      testing.TB
	master *Server
}

// StartReplicated starts all four and waits until the replicas are attached. The options are the three servers'; see Start.
func StartReplicated(t testing.TB, opts ...Option) *Replicated {
	t.Helper()
	r := &Replicated{t: t, master: Start(t, opts...)}
	r.Servers = []*Server{r.master}
	for range 2 {
		r.Servers = append(r.Servers, Start(t, append(opts, Args("--replicaof", "127.0.0.1 "+strconv.Itoa(r.master.port)))...))
	}
	r.Sentinels = []*Server{StartSentinel(t, r.master)}
	r.AwaitSettled()
	return r
}

// FailoverOptions are those of a client that asks the sentinel.
func (r *Replicated) FailoverOptions() *redis.FailoverOptions {
	return &redis.FailoverOptions{MasterName: MasterName, SentinelAddrs: []string{r.Sentinels[0].Addr()}}
}

// Client returns a new failover client; the test closes it at its end.
func (r *Replicated) Client() *redis.Client {
	c := redis.NewFailoverClient(r.FailoverOptions())
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Master returns the server that the sentinel names.
func (r *Replicated) Master() *Server { return r.master }

// Depose makes another server, which has all data, the master of the other replica, and returns it. The old master is told nothing.
func (r *Replicated) Depose() *Server {
	r.t.Helper()
	old := r.master
	old.Do("PING") // WAIT covers what was written before the last command of its connection
	old.Do("WAIT", 2, settleTimeout.Milliseconds())
	r.master = r.Servers[0]
	if old == r.master {
		r.master = r.Servers[1]
	}
	r.master.Do("REPLICAOF", "NO", "ONE")
	for _, s := range r.Servers {
		if s != old && s != r.master {
			s.Do("REPLICAOF", "127.0.0.1", r.master.port)
		}
	}
	r.Sentinels[0].Name(r.master)
	return r.master
}

// Failover makes another server the master of both others, and returns it.
func (r *Replicated) Failover() *Server {
	r.t.Helper()
	old := r.master
	heir := r.Depose()
	old.Do("REPLICAOF", "127.0.0.1", heir.port)
	return heir
}

// AwaitSettled waits until both replicas are attached to the master.
func (r *Replicated) AwaitSettled() {
	r.t.Helper()
	await(r.t, "two replicas attached", func() bool { return r.master.replicas() == 2 })
}

// replicas is how many replicas are attached and have all data.
func (s *Server) replicas() int {
	s.t.Helper()
	return strings.Count(fmt.Sprint(s.Do("INFO", "replication")), "state=online")
}

// await asks every 20 ms until it is so, and fails the test where it is not in time.
func await(t testing.TB, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(settleTimeout); time.Now().Before(deadline); <-tick.C {
		if so() {
			return
		}
	}
	t.Fatalf("redistest: not within %v: %s", settleTimeout, what)
}
