package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// MasterName is the name under which the sentinels of a Replicated know its master.
const MasterName = "boss"

// inner is the user, and the password, with which replicas and sentinels reach each server, so that they can be cut off from one
// while its clients are not.
const inner = "inner"

// switchTimeout bounds the wait for the sentinels. One that got no turn for two seconds does nothing for thirty (TILT).
const switchTimeout = 2 * time.Minute

// Replicated is one master, two replicas and three sentinels that watch them. The sentinels take a silent master for down
// after a second. The last server never becomes the master, so it always is there to replicate the others; the first
// two take turns.
type Replicated struct {
	Servers   []*Server // the first was the master at the start
	Sentinels []*Server

	t        testing.TB
	switches chan string
}

// StartReplicated starts all six and waits until they know each other. The options are the three servers'; see Start.
func StartReplicated(t testing.TB, opts ...Option) *Replicated {
	t.Helper()
	r := &Replicated{t: t, switches: make(chan string, 256)}
	for i := range 3 {
		own := append([]Option{Args("--user", inner, "on", ">"+inner, "~*", "&*", "+@all", "--masteruser", inner, "--masterauth", inner)},
			opts...)
		if i > 0 {
			own = append([]Option{replicaOf(r.Servers[0])}, own...)
		}
		if i == 2 {
			own = append([]Option{Args("--replica-priority", "0")}, own...)
		}
		r.Servers = append(r.Servers, Start(t, own...))
	}
	await(t, "two replicas attached", func() bool { return r.Servers[0].replicas() == 2 })
	for range 3 {
		r.Sentinels = append(r.Sentinels, Sentinel(t, r.configuration()))
	}
	for _, s := range r.Sentinels {
		r.hear(s)
	}
	t.Cleanup(func() {
		if t.Failed() {
			r.logs()
		}
	})
	r.AwaitSettled()
	return r
}

// logs shows what the sentinels said, which tells why a switch did not come about.
func (r *Replicated) logs() {
	for _, s := range r.Sentinels {
		r.t.Logf("sentinel %s:\n%s", s.Addr(), s.Log())
	}
}

func replicaOf(master *Server) Option {
	return Args("--replicaof", "127.0.0.1 "+strconv.Itoa(master.port))
}

// configuration is a new configuration file of a sentinel.
func (r *Replicated) configuration() string {
	text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\nsentinel down-after-milliseconds %[1]s 1000\n"+
		"sentinel failover-timeout %[1]s 2000\nsentinel parallel-syncs %[1]s 2\n"+
		"sentinel auth-user %[1]s %[3]s\nsentinel auth-pass %[1]s %[3]s\n", MasterName, r.Servers[0].port, inner)
	path := filepath.Join(r.t.TempDir(), "sentinel.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatalf("redistest: %v", err)
	}
	return path
}

// hear collects what a sentinel says of switches until the test ends.
func (r *Replicated) hear(sentinel *Server) {
	r.t.Helper()
	ps := sentinel.Client().Subscribe(context.Background(), "+switch-master")
	if _, err := ps.Receive(context.Background()); err != nil {
		r.t.Fatalf("redistest: subscribe to a sentinel: %v", err)
	}
	done := make(chan struct{})
	r.t.Cleanup(func() {
		_ = ps.Close()
		<-done
	})
	messages := ps.Channel()
	go func() {
		defer close(done)
		for m := range messages {
			// <name> <old host> <old port> <new host> <new port>
			if words := strings.Fields(m.Payload); len(words) == 5 {
				r.switches <- net.JoinHostPort(words[3], words[4])
			}
		}
	}()
}

// FailoverOptions are those of a client that asks these sentinels.
func (r *Replicated) FailoverOptions() *redis.FailoverOptions {
	o := &redis.FailoverOptions{MasterName: MasterName}
	for _, s := range r.Sentinels {
		o.SentinelAddrs = append(o.SentinelAddrs, s.Addr())
	}
	return o
}

// Client returns a new failover client; the test closes it at its end.
func (r *Replicated) Client() *redis.Client {
	c := redis.NewFailoverClient(r.FailoverOptions())
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Master returns the server that the sentinels call the master. It fails the test where they do not agree in time.
func (r *Replicated) Master() *Server {
	r.t.Helper()
	var master *Server
	await(r.t, "sentinels that agree on a master", func() bool {
		for i, s := range r.Sentinels {
			said := r.said(s)
			if i > 0 && (master == nil || said != master) {
				return false
			}
			master = said
		}
		return master != nil
	})
	return master
}

// said is the server that one sentinel calls the master.
func (r *Replicated) said(sentinel *Server) *Server {
	where, _ := sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).([]any)
	for _, s := range r.Servers {
		if len(where) == 2 && where[1] == strconv.Itoa(s.port) {
			return s
		}
	}
	return nil
}

// Failover has the sentinels make another server the master, and returns when one of them says that it is. It waits while
// they are not able to.
func (r *Replicated) Failover() *Server {
	r.t.Helper()
	old := r.Master()
	await(r.t, "SENTINEL FAILOVER accepted", func() bool {
		return r.Sentinels[0].try("SENTINEL", "FAILOVER", MasterName) == nil
	})
	return r.AwaitSwitch(old)
}

// AwaitSwitch waits until a sentinel announces a master that is not old, and returns it.
func (r *Replicated) AwaitSwitch(old *Server) *Server {
	r.t.Helper()
	timeout := time.NewTimer(switchTimeout)
	defer timeout.Stop()
	for {
		select {
		case addr := <-r.switches:
			for _, s := range r.Servers {
				if s != old && s.Addr() == addr {
					return s
				}
			}
		case <-timeout.C:
			r.t.Fatalf("redistest: no sentinel announced a master after %s", old.Addr())
		}
	}
}

// Isolate cuts a server off from replicas and sentinels; whoever else reaches it goes on to. A sentinel that cannot log in is the
// default user, so that one may not PING meanwhile.
func (r *Replicated) Isolate(s *Server) {
	r.t.Helper()
	s.Do("ACL", "SETUSER", inner, "off")
	s.Do("ACL", "SETUSER", "default", "-ping")
	s.Do("CLIENT", "KILL", "USER", inner)
}

// Reunite ends Isolate. The sentinels then make s a replica of the present master.
func (r *Replicated) Reunite(s *Server) {
	r.t.Helper()
	s.Do("ACL", "SETUSER", "default", "+ping")
	s.Do("ACL", "SETUSER", inner, "on")
}

// Rejoin starts a killed server again, empty, as a replica of the present master.
func (r *Replicated) Rejoin(s *Server) {
	r.t.Helper()
	s.Restart(true)
	s.Do("REPLICAOF", "127.0.0.1", r.Master().port)
}

// Attach makes s a further replica of the present master, and returns when it has all data. No sentinel promotes it if it was started
// with replica-priority 0.
func (r *Replicated) Attach(s *Server) {
	r.t.Helper()
	master := r.Master()
	before := master.replicas()
	s.Do("REPLICAOF", "127.0.0.1", master.port)
	await(r.t, "a further replica attached", func() bool { return master.replicas() > before })
}

// AwaitSettled waits until every sentinel knows all others, and the present master has two replicas, which the sentinels
// know as such: only then can the next switch begin. A master that was deposed while it lived becomes a replica about ten
// seconds later.
func (r *Replicated) AwaitSettled() {
	r.t.Helper()
	await(r.t, "one master with two replicas, and sentinels that know it", func() bool {
		master := r.Master()
		if master.replicas() != 2 {
			return false
		}
		for _, s := range r.Sentinels {
			if !r.settled(s) {
				return false
			}
		}
		return true
	})
	for len(r.switches) > 0 { // what the other sentinels said of a switch that is over
		<-r.switches
	}
}

// settled says whether a sentinel sees two others, a master in good health, and two replicas of it.
func (r *Replicated) settled(sentinel *Server) bool {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	c := redis.NewSentinelClient(sentinel.options())
	defer func() { _ = c.Close() }()
	master, err := c.Master(ctx, MasterName).Result()
	if err != nil || master["flags"] != "master" || master["num-other-sentinels"] != "2" {
		return false
	}
	replicas, err := c.Replicas(ctx, MasterName).Result()
	if err != nil || len(replicas) != 2 {
		return false
	}
	for _, one := range replicas {
		if one["flags"] != "slave" || one["role-reported"] != "slave" || one["master-link-status"] != "ok" ||
			one["master-port"] != master["port"] {
			return false
		}
	}
	return true
}

// replicas is how many replicas are attached and have all data. A server that does not answer has none.
func (s *Server) replicas() int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c := redis.NewClient(s.options())
	defer func() { _ = c.Close() }()
	text, err := c.Info(ctx, "replication").Result()
	if err != nil || !strings.Contains(text, "role:master") {
		return 0
	}
	return strings.Count(text, "state=online")
}

// try runs one command that may be refused.
func (s *Server) try(args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	c := redis.NewClient(s.options())
	defer func() { _ = c.Close() }()
	if err := c.Do(ctx, args...).Err(); !errors.Is(err, redis.Nil) {
		return err
	}
	return nil
}

// await asks every 20 ms until it is so, and fails the test where it is not in time.
func await(t testing.TB, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(switchTimeout); time.Now().Before(deadline); <-tick.C {
		if so() {
			return
		}
	}
	t.Fatalf("redistest: not within %v: %s", switchTimeout, what)
}
