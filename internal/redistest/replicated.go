package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
)

// MasterName is the sentinels' name of the master.
const MasterName = "boss"

// acknowledgeWithin is how long replicas may take to receive all data, in milliseconds.
const acknowledgeWithin = 120_000

// StartSentinel starts a sentinel that reports master as the master and never promotes another server.
func StartSentinel(t testing.TB, master *Server) *Server {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, "sentinel monitor %s 127.0.0.1 %d 2\n", MasterName, master.port), 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s := &Server{t: t, binary: find(t), dir: t.TempDir(), sentinel: conf}
	return s.start(redisfixture.Watching)
}

// Name makes a sentinel report another master.
func (s *Server) Name(master *Server) {
	s.t.Helper()
	s.Do("SENTINEL", "REMOVE", MasterName)
	s.Do("SENTINEL", "MONITOR", MasterName, "127.0.0.1", master.port, 2)
}

// Replicated is a master, two replicas and a sentinel that reports the master. Only the test changes the master.
type Replicated struct {
	Servers   []*Server // the first is the master at the start
	Sentinels []*Server

	t      testing.TB
	master *Server
}

// StartReplicated starts all four and waits until the replicas are attached. The options apply to the three servers.
func StartReplicated(t testing.TB, opts ...Option) *Replicated {
	t.Helper()
	r := &Replicated{t: t, master: Start(t, opts...)}
	r.Servers = []*Server{r.master}
	for range 2 {
		r.Servers = append(r.Servers, Start(t, append(opts, Args("--replicaof", "127.0.0.1 "+strconv.Itoa(int(r.master.port))))...))
	}
	r.Sentinels = []*Server{StartSentinel(t, r.master)}
	r.AwaitSettled()
	return r
}

// Client returns a new failover client. The test closes it at its end.
func (r *Replicated) Client() *redis.Client {
	c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: MasterName, SentinelAddrs: []string{r.Sentinels[0].Addr()}})
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Master returns the server that the sentinel reports.
func (r *Replicated) Master() *Server { return r.master }

// Depose makes another server with all data the master of the other replica, and returns it. The old master does not notice.
func (r *Replicated) Depose() *Server {
	r.t.Helper()
	old := r.master
	old.Do("PING") // WAIT covers the writes before the last command of its connection
	old.Do("WAIT", 2, acknowledgeWithin)
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

// Failover makes another server the master of both others, including the old master, and returns it.
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
	Eventually(r.t, "two replicas attached", func() bool { return r.master.node.Replicas(context.Background()) == 2 })
}
