package real

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// Any user of the machine reaches the port of a run's own Redis, and any node: none may have that process, which is this user's, write
// where it likes, load code, or take a right that a fault has taken away.
func TestNodesDoNotRuleTheServer(t *testing.T) {
	r := provision(t)
	_, given := refusing(fault.Fault{Kind: fault.RedisNoPerm, Deny: fault.DenySet}, systems[systemPolling])
	for _, before := range [][]any{{"PING"}, given} { // as it starts, and after a fault
		if err := r.client.Load().Do(t.Context(), before...).Err(); err != nil {
			t.Fatal(err)
		}
		for _, password := range []string{"", harnessUser} {
			o := &redis.Options{Addr: r.url.Addr, DisableIdentity: true, MaxRetries: -1, Protocol: 2}
			want := "NOPERM "
			if password != "" {
				o.Username, o.Password, want = harnessUser, password, "WRONGPASS "
			}
			nodes := redis.NewClient(o)
			defer func() { _ = nodes.Close() }()
			for _, command := range []string{
				"CONFIG SET dir /tmp", "CONFIG GET dir", "MODULE LOAD /tmp/x.so", "DEBUG SLEEP 0", "ACL WHOAMI", "REPLICAOF 127.0.0.1 1",
				"SHUTDOWN NOSAVE", "SAVE", "BGSAVE", "BGREWRITEAOF", "SYNC", "PSYNC ? -1", "MIGRATE 127.0.0.1 1 k 0 10",
				"RESTORE k 0 x", "RESTORE-ASKING k 0 x", "CLIENT PAUSE 1", "CLIENT UNPAUSE", "CLIENT NO-EVICT on", "CLIENT KILL TYPE replica",
				"SCRIPT DEBUG YES", "SCRIPT KILL",
			} {
				var words []any
				for w := range strings.FieldsSeq(command) {
					words = append(words, w)
				}
				err := nodes.Do(t.Context(), words...).Err()
				if err == nil || !strings.HasPrefix(err.Error(), want) && !strings.Contains(err.Error(), "command not allowed") {
					t.Errorf("%s is answered %v, want %s", command, err, want)
				}
			}
			if password != "" {
				continue
			}
			for _, command := range [][]any{ // what libraries of leases use
				{"SCRIPT", "LOAD", "return 1"}, {"SCRIPT", "EXISTS", "x"}, {"SCRIPT", "FLUSH"}, {"CLIENT", "SETNAME", "x"}, {"CLIENT", "GETNAME"},
				{"CLIENT", "ID"}, {"CLIENT", "INFO"}, {"CLIENT", "LIST"}, {"CLIENT", "TRACKING", "off"},
			} {
				if err := nodes.Do(t.Context(), command...).Err(); err != nil {
					t.Errorf("%v is answered %v", command, err)
				}
			}
		}
	}
	for _, arg := range r.server.users() {
		if strings.Contains(arg, r.server.secret) {
			t.Errorf("the process list shows %s", arg)
		}
	}
}

// While a storm's own Redis is down anybody may listen at its port. The harness says nothing there, least of all its password.
func TestTheHarnessSaysNothingAtAPortThatIsNotRedis(t *testing.T) {
	r := provision(t)
	steps := newTap(r, systems[systemPolling], newClock(), func(history.Event) {})
	defer steps.close()
	ctx, cancel := context.WithTimeout(t.Context(), tapPatience)
	defer cancel()
	if err := steps.wait(ctx); err != nil {
		t.Fatal(err)
	}
	r.halt(ctx)
	l, err := net.Listen("tcp", r.server.addr)
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan string, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			select {
			case came <- c.RemoteAddr().String():
			default:
			}
			_ = c.Close()
		}
	}()
	if err := r.client.Load().Ping(ctx).Err(); err == nil {
		t.Error("a server that is down answers")
	}
	select { // the tap tries again every 10 ms
	case who := <-came:
		t.Errorf("%s, of the harness, came to another's port", who)
	case <-time.After(200 * time.Millisecond):
	}
	if err := r.server.start(ctx); !errors.Is(err, errPortTaken) {
		t.Errorf("a server whose port is another's starts with %v", err)
	}
	_ = l.Close()
	if err := r.resume(ctx); err != nil {
		t.Error(err)
	}
}
