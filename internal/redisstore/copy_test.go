package redisstore_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// attach makes a copy of Redis as a user who may do that and nothing else, which calls itself by any address.
func attach(t *testing.T, s *redistest.Server, address string) {
	t.Helper()
	s.Do("ACL", "SETUSER", "copy", "on", ">pw", "resetkeys", "-@all", "+psync", "+replconf")
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	in := bufio.NewReader(c)
	for _, words := range [][]string{
		{"AUTH", "copy", "pw"}, {"REPLCONF", "ip-address", address}, {"REPLCONF", "listening-port", "1"},
		{"REPLCONF", "capa", "eof", "capa", "psync2"}, {"PSYNC", "?", "-1"},
	} {
		text := fmt.Sprintf("*%d\r\n", len(words))
		for _, w := range words {
			text += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
		}
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "+") {
			t.Fatalf("%q: %q, %v", words, line, err)
		}
	}
}

// Who may copy Redis, and write nothing, cannot have it taken for another one by an address with line ends, nor end an epoch where no
// acknowledgements count.
func TestACopyChangesNothingThatIsSaidOfRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	store, err := redisstore.New(s.Client(), redisstore.Options{Quarantine: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, err := store.Group(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	attach(t, s, "x\r\nredis_version:1.0.0\r\nrole:slave\r\nrun_id:zz\r\nmaxmemory:1\r\nmaxmemory_policy:allkeys-lru\r\ny:z")
	if text, _ := s.Do("INFO").(string); !strings.Contains(text, "\r\nredis_version:1.0.0\r\n") {
		t.Skip("this Redis does not copy what a replica calls itself") // and then there is nothing to see
	}
	if warnings, err := store.Check(t.Context()); err != nil || len(warnings) > 0 {
		t.Errorf("%v, %q", err, warnings)
	}
	after, err := store.Group(t.Context())
	if err != nil || after.Over || after.Info.Fields["run_id"] != before.Info.Fields["run_id"] {
		t.Errorf("%v, %+v", err, after)
	}
	if err := store.Bootstrap(t.Context()); err != nil { // the script sees the same life
		t.Error(err)
	}
	if again, err := store.Group(t.Context()); err != nil || again.Epoch != before.Epoch {
		t.Errorf("%v: the epoch %q became %q", err, before.Epoch, again.Epoch)
	}
}
