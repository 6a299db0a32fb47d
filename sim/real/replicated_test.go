package real

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// What a wiped replica forgets is what lies in its own folder: a file of that name where the simulator was started is its user's.
func TestReplicaIsWipedInItsFolder(t *testing.T) {
	r := provisionChoice(t, RedisChoice{Servers: 3})
	t.Chdir(t.TempDir())
	if err := os.WriteFile("dump.rdb", []byte("somebody's"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := r.replicated.members[1]
	m.kill()
	if err := m.erase(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile("dump.rdb"); string(text) != "somebody's" {
		t.Errorf("a file of the user: %q, %v", text, err)
	}
	if left, err := filepath.Glob(filepath.Join(m.dir, "appendonly*")); err != nil || len(left) > 0 {
		t.Errorf("left of the replica's data: %q, %v", left, err)
	}
}

// Any user of the machine reaches the ports of servers and sentinels. Who could tell a sentinel where the master is would be told the
// password of the harness.
func TestNeighboursLeadNoSentinelElsewhere(t *testing.T) {
	r := provisionChoice(t, RedisChoice{Servers: 2})
	lie := "127.0.0.1,1,0123456789012345678901234567890123456789,9,storm,127.0.0.1,1,9"
	at := func(addr string) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true, MaxRetries: -1, Protocol: 2})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	refused := func(addr string, command ...any) {
		t.Helper()
		if err := at(addr).Do(t.Context(), command...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM ") &&
			!strings.Contains(err.Error(), "can't publish") {
			t.Errorf("%v is answered %v", command, err)
		}
	}
	for _, s := range r.replicated.sentinels {
		for _, command := range []string{
			"PUBLISH __sentinel__:hello " + lie, "SENTINEL SET storm quorum 1", "SENTINEL MONITOR other 127.0.0.1 1 1", "SENTINEL REMOVE storm",
			"SENTINEL RESET storm", "SENTINEL FAILOVER storm", "SENTINEL FLUSHCONFIG", "SENTINEL CONFIG GET *",
			"SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 9 0123456789012345678901234567890123456789", "SENTINEL SIMULATE-FAILURE crash-after-election",
			"SHUTDOWN", "ACL LIST", "CLIENT KILL TYPE normal",
		} {
			var words []any
			for w := range strings.FieldsSeq(command) {
				words = append(words, w)
			}
			refused(s.addr, words...)
		}
		if where, err := redis.NewSentinelClient(&redis.Options{Addr: s.addr}).GetMasterAddrByName(t.Context(), masterName).Result(); err != nil ||
			len(where) != 2 {
			t.Errorf("nodes are told of the master %q, %v", where, err)
		}
	}
	for _, m := range r.replicated.members {
		for _, addr := range []string{m.addr, m.door.addr()} {
			refused(addr, "PUBLISH", "__sentinel__:hello", lie)
			refused(addr, "EVAL", "return redis.call('publish', '__sentinel__:hello', ARGV[1])", 0, lie)
			if _, err := at(addr).Subscribe(t.Context(), "__sentinel__:hello").Receive(t.Context()); err != nil {
				t.Errorf("nodes do not hear sentinels: %v", err)
			}
		}
	}
}

// While a server is down anybody may listen at its port. Nobody who is led to that server says anything there: the sentinels and its replicas
// would say the password of the harness.
func TestNobodySaysAnythingAtAPortThatIsNoServer(t *testing.T) {
	r := provisionChoice(t, RedisChoice{Servers: 2})
	for _, m := range r.replicated.members {
		m.kill()
		l, err := net.Listen("tcp", m.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(3 * time.Second)) // all try again once a second
		if c, err := l.Accept(); err == nil {
			text := make([]byte, 1<<10)
			_ = c.SetDeadline(time.Now().Add(time.Second))
			n, _ := c.Read(text)
			t.Errorf("at the port of %s somebody said %q", m.name, text[:n])
		} else if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		_ = l.Close()
		if err := m.start(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
}
