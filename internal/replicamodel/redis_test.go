package replicamodel_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// These tests hold what the model takes for granted of Redis against a real one.

// epochScript tells what an epoch is made of: run_id, and how often a replica attached itself.
const epochScript = `
local info, stats = redis.call('INFO', 'server'), redis.call('INFO', 'stats')
local count = tonumber(string.match(stats, 'sync_full:(%d+)')) + tonumber(string.match(stats, 'sync_partial_ok:(%d+)'))
if KEYS[1] then redis.call('INCR', KEYS[1]) end
return {string.match(info, 'run_id:(%w+)'), count}`

func replicaOf(t *testing.T, master *redistest.Server) *redistest.Server {
	t.Helper()
	s := redistest.Start(t)
	follow(t, s, master)
	return s
}

func follow(t *testing.T, s, master *redistest.Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	s.Do("REPLICAOF", host, port)
}

// attachments is what a script at s sees.
func attachments(s *redistest.Server) int64 {
	return s.Do("EVAL", epochScript, 0).([]any)[1].(int64)
}

// eventually asks until it is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-tick.C {
		if so() {
			return
		}
	}
	t.Fatalf("not within 30s: %s", what)
}

func online(s *redistest.Server) int {
	return strings.Count(s.Do("INFO", "replication").(string), "state=online")
}

// conn is one connection, as a pipeline has it.
func conn(t *testing.T, s *redistest.Server) *redis.Conn {
	t.Helper()
	c := s.Client().Conn()
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func do(t *testing.T, c *redis.Conn, args ...any) any {
	t.Helper()
	v, err := c.Do(context.Background(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// Every attachment counts before the replica acknowledges: a full synchronization, and one that goes on where it was. So
// a probe after WAIT sees each replica that came after the op.
func TestEveryAttachmentCounts(t *testing.T) {
	master := redistest.Start(t)
	if n := attachments(master); n != 0 {
		t.Fatalf("%d attachments of a new process", n)
	}
	c := conn(t, master)
	before := do(t, c, "EVAL", epochScript, 1, "key").([]any)[1]
	replica := replicaOf(t, master)
	if n := do(t, c, "WAIT", 1, 20000); n != int64(1) {
		t.Fatalf("WAIT answers %v after a replica has attached itself", n)
	}
	if after := do(t, c, "EVAL", epochScript, 0).([]any)[1]; before != int64(0) || after != int64(1) {
		t.Errorf("%v attachments before the replica came, %v after it acknowledged", before, after)
	}
	master.Do("CLIENT", "KILL", "TYPE", "replica")
	eventually(t, "the replica goes on", func() bool { return attachments(master) == 2 && online(master) == 1 })
	if info := master.Do("INFO", "stats").(string); !strings.Contains(info, "sync_partial_ok:1") {
		t.Errorf("the replica did not go on where it was: %s", info)
	}
	replica.Restart(true)
	follow(t, replica, master)
	eventually(t, "the replica is copied anew", func() bool { return attachments(master) == 3 && online(master) == 1 })
	run := master.Do("EVAL", epochScript, 0).([]any)[0]
	master.Do("CONFIG", "RESETSTAT")
	if now := master.Do("EVAL", epochScript, 0).([]any); now[0] != run || now[1] != int64(0) {
		t.Errorf("after CONFIG RESETSTAT of %v: %v", run, now)
	}
}

// WAIT speaks of what its own connection has sent. On another one it answers at once.
func TestWaitSpeaksOfItsConnection(t *testing.T) {
	master := redistest.Start(t)
	replica := replicaOf(t, master)
	eventually(t, "a replica", func() bool { return online(master) == 1 })
	c, other := conn(t, master), conn(t, master)
	do(t, other, "PING") // a connection's offset is that of its last command
	do(t, c, "EVAL", epochScript, 1, "key")
	if n := do(t, c, "WAIT", 1, 20000); n != int64(1) {
		t.Fatalf("WAIT answers %v", n)
	}
	replica.Freeze()
	defer replica.Thaw()
	do(t, c, "EVAL", epochScript, 1, "key")
	if n := do(t, c, "WAIT", 1, 100); n != int64(0) {
		t.Errorf("WAIT counts %v frozen replicas", n)
	}
	if n := do(t, other, "WAIT", 1, 100); n != int64(1) {
		t.Errorf("on another connection WAIT answers %v: this one speaks of what was never sent there", n)
	}
}

// A demotion ends a WAIT and keeps the replicas; a promotion disconnects them, so that each of them is counted again.
func TestPromotionDisconnects(t *testing.T) {
	master := redistest.Start(t)
	replica := replicaOf(t, master)
	eventually(t, "a replica", func() bool { return online(master) == 1 })
	before := attachments(master)

	replica.Freeze()
	c := conn(t, master)
	do(t, c, "EVAL", epochScript, 1, "key")
	ended := make(chan error, 1)
	go func() { ended <- c.Do(context.Background(), "WAIT", 1, 20000).Err() }()
	eventually(t, "WAIT blocks", func() bool {
		return strings.Contains(master.Do("INFO", "clients").(string), "blocked_clients:1")
	})
	master.ReadOnly()
	if err := <-ended; err == nil || !strings.HasPrefix(err.Error(), "UNBLOCKED") {
		t.Errorf("WAIT at a master that is demoted ends with %v", err)
	}
	if err := c.Do(context.Background(), "WAIT", 1, 100).Err(); err == nil {
		t.Error("WAIT at a replica is answered")
	}
	if n := online(master); n != 1 {
		t.Errorf("after its demotion %d replicas hang on it, not one", n)
	}
	master.Writable()
	if n := online(master); n != 0 {
		t.Errorf("after its promotion %d replicas hang on it still", n)
	}
	replica.Thaw()
	eventually(t, "the replica is counted again", func() bool { return attachments(master) > before && online(master) == 1 })
}

// An old master that was frozen and lives on keeps its run_id and its epoch. What is written there is acknowledged by nobody, once
// its replica has gone.
func TestFrozenMasterIsNotAcknowledged(t *testing.T) {
	old := redistest.Start(t)
	heir, other := replicaOf(t, old), replicaOf(t, old)
	eventually(t, "two replicas", func() bool { return online(old) == 2 })
	c := conn(t, old)
	before := do(t, c, "EVAL", epochScript, 1, "key").([]any)
	if n := do(t, c, "WAIT", 2, 20000); n != int64(2) {
		t.Fatalf("WAIT answers %v", n)
	}
	old.Freeze()
	heir.Writable()
	follow(t, other, heir)
	eventually(t, "the other follows", func() bool { return online(heir) == 1 })
	if n := attachments(heir); n != 1 {
		t.Errorf("the promoted replica counts %d attachments", n)
	}
	h := conn(t, heir)
	do(t, h, "EVAL", epochScript, 1, "key")
	if n := do(t, h, "WAIT", 1, 20000); n != int64(1) {
		t.Errorf("WAIT at the promoted replica answers %v", n)
	}
	old.Thaw()
	after := do(t, c, "EVAL", epochScript, 1, "key").([]any)
	if after[0] != before[0] || after[1] != before[1] {
		t.Errorf("the old master's epoch was %v and is %v", before, after)
	}
	if n := do(t, c, "WAIT", 1, 100); n != int64(0) {
		t.Errorf("%v replicas acknowledge what is written at the old master", n)
	}
	follow(t, other, old)
	eventually(t, "the other is back", func() bool { return attachments(old) == before[1].(int64)+1 })
}

// A copy of the data, as redis-cli --rdb takes it, is an attachment that never acknowledges.
func TestCopyNeverAcknowledges(t *testing.T) {
	master := redistest.Start(t)
	copying, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer copying.Close()
	if _, err := copying.Write([]byte("SYNC\r\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the copy is counted", func() bool { return attachments(master) == 1 && online(master) == 1 })
	c := conn(t, master)
	do(t, c, "EVAL", epochScript, 1, "key")
	if n := do(t, c, "WAIT", 1, 100); n != int64(0) {
		t.Errorf("WAIT counts %v copies", n)
	}
}

// A replica that restarts from an old dump goes on from there where its master still has what came after, and copies everything where it
// has not. Either way it is counted, and has the newest data before it acknowledges.
func TestOldDump(t *testing.T) {
	for _, c := range []struct {
		name    string
		written int // kB
		full    string
		partial string
	}{
		{"the backlog has it", 1, "sync_full:1", "sync_partial_ok:1"},
		{"the backlog has lost it", 200, "sync_full:2", "sync_partial_ok:0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			master := redistest.Start(t, redistest.Args("--repl-backlog-size", "16kb"))
			host, port, _ := net.SplitHostPort(master.Addr())
			replica := redistest.Start(t, redistest.Args("--replicaof", host+" "+port))
			eventually(t, "a replica", func() bool { return online(master) == 1 })
			before := attachments(master)
			replica.Do("SAVE")
			w := conn(t, master)
			for range c.written {
				do(t, w, "SET", "key", strings.Repeat("x", 1024))
			}
			do(t, w, "SET", "key", "new")
			do(t, w, "WAIT", 1, 20000)
			replica.Restart(false)
			eventually(t, "the replica is attached again", func() bool { return attachments(master) == before+1 && online(master) == 1 })
			do(t, w, "SET", "other", "new")
			if n := do(t, w, "WAIT", 1, 20000); n != int64(1) {
				t.Fatalf("WAIT answers %v", n)
			}
			if got := replica.Do("GET", "key"); got != "new" {
				t.Errorf("the replica acknowledges, and has %v", got)
			}
			info := master.Do("INFO", "stats").(string)
			if !strings.Contains(info, c.full+"\r") || !strings.Contains(info, c.partial+"\r") {
				t.Errorf("want %s and %s: %s", c.full, c.partial, info)
			}
		})
	}
}
