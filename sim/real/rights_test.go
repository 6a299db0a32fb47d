package real

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/sim/fault"
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
				"SHUTDOWN NOSAVE",
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
		}
	}
	for _, arg := range r.server.users() {
		if strings.Contains(arg, r.server.secret) {
			t.Errorf("the process list shows %s", arg)
		}
	}
}
