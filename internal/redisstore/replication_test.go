package redisstore_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// These tests check on a real Redis what the argument for Config.Replicas (docs/design.md, I9) assumes of WAIT and of promotions.

// attachments counts the replicas' attachments to the master, as life.lua does.
func (r *replicated) attachments() int {
	count := 0
	for line := range strings.Lines(r.master.Do("INFO", "stats").(string)) {
		for _, field := range []string{"sync_full:%d", "sync_partial_ok:%d"} {
			n := 0
			_, _ = fmt.Sscanf(line, field, &n)
			count += n
		}
	}
	return count
}

// attached waits until the replica has attached itself for the nth time.
func (r *replicated) attached(n int) {
	r.Helper()
	r.await(fmt.Sprintf("attachment %d", n), func() bool { return r.attachments() == n && strings.Contains(r.info(), "state=online") })
}

// wait sends WAIT for one replica on a connection and returns how many acknowledged.
func wait(t *testing.T, c *redis.Conn, ms int) int64 {
	t.Helper()
	n, err := c.Do(t.Context(), "WAIT", 1, ms).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (r *replicated) conn() *redis.Conn {
	c := r.master.Client().Conn()
	r.Cleanup(func() { _ = c.Close() })
	return c
}

// Redis counts an attachment before the replica acknowledges anything, whether the replica copies all data or resumes the stream.
func TestEveryAttachmentCounts(t *testing.T) { // G1
	t.Parallel()
	r := &replicated{T: t, master: redistest.Start(t), replica: redistest.Start(t)}
	c := r.conn()
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil || r.attachments() != 0 {
		t.Fatalf("%v; %d attachments to a new server", err, r.attachments())
	}
	host, port, _ := net.SplitHostPort(r.master.Addr())
	r.replica.Do("REPLICAOF", host, port)
	if n := wait(t, c, 20000); n != 1 || r.attachments() != 1 {
		t.Errorf("%d replicas acknowledge after %d attachments", n, r.attachments())
	}
	r.master.Do("CLIENT", "KILL", "TYPE", "replica")
	r.attached(2)
	if stats := r.master.Do("INFO", "stats").(string); !strings.Contains(stats, "sync_partial_ok:1") {
		t.Errorf("the replica did not resume the stream: %s", stats)
	}
	r.replica.Restart(true)
	r.follow()
	r.attached(3)
}

// WAIT covers the writes of its own connection. On another connection it answers at once.
func TestWaitCoversItsConnection(t *testing.T) { // G1
	t.Parallel()
	r := newReplicated(t)
	own, other := r.conn(), r.conn()
	r.caughtUp()
	other.Ping(t.Context()) // fixes the offset that WAIT compares on that connection
	r.replica.Freeze()
	own.Set(t.Context(), "k", "v", 0)
	if n := wait(t, own, 100); n != 0 {
		t.Errorf("%d frozen replicas acknowledge", n)
	}
	if n := wait(t, other, 100); n != 1 {
		t.Errorf("on another connection %d replicas acknowledge", n)
	}
}

// A demotion ends a WAIT with an error. A promotion disconnects the replicas, so each of them counts as attached again.
func TestPromotionDisconnects(t *testing.T) { // G1
	t.Parallel()
	r := newReplicated(t)
	before := r.attachments()
	r.replica.Freeze()
	c := r.conn()
	c.Set(t.Context(), "k", "v", 0)
	ended := make(chan error, 1)
	go func() { ended <- c.Do(t.Context(), "WAIT", 1, 20000).Err() }()
	r.await("WAIT blocks", func() bool {
		return strings.Contains(r.master.Do("INFO", "clients").(string), "blocked_clients:1")
	})
	r.master.ReadOnly()
	if err := <-ended; err == nil || !strings.HasPrefix(err.Error(), "UNBLOCKED") {
		t.Errorf("WAIT at a demoted master ends with %v", err)
	}
	if !strings.Contains(r.info(), "connected_slaves:1") {
		t.Errorf("after its demotion: %s", r.info())
	}
	r.master.Writable()
	if !strings.Contains(r.info(), "connected_slaves:0") {
		t.Errorf("after its promotion: %s", r.info())
	}
	r.replica.Thaw()
	r.attached(before + 1)
}

// A frozen master that another one replaced keeps its epoch. Nobody acknowledges its writes, and a replica that returns to it ends the
// epoch.
func TestOldMasterIsNotAcknowledged(t *testing.T) { // G1
	t.Parallel()
	r := newReplicated(t)
	r.do(core.OpAcquire, 1)
	if a := r.do(core.OpRenew, 1); a.Failure != core.FailNone {
		t.Fatalf("renew: %+v", a)
	}
	before := r.epoch
	r.master.Freeze()
	r.replica.Writable()
	r.master.Thaw()
	if a := r.do(core.OpRenew, 1); a.Failure != core.FailUncounted || r.learn().Epoch != before {
		t.Errorf("at the old master: %+v; the epoch was %q, and is %q", a, before, r.epoch)
	}
	r.follow()
	if now := r.learn().Epoch; now == before {
		t.Errorf("the epoch is still %q after a replica attached itself", now)
	}
}

// A copy of the data, as redis-cli --rdb takes it, attaches itself and never acknowledges.
func TestCopyNeverAcknowledges(t *testing.T) { // G1
	t.Parallel()
	r := newReplicated(t)
	r.do(core.OpRenew, 1) // so that the server knows the script
	r.replica.Kill()
	before := r.attachments()
	c, err := net.Dial("tcp", r.master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("SYNC\r\n")); err != nil {
		t.Fatal(err)
	}
	r.attached(before + 1)
	r.learn()
	if a := r.do(core.OpRenew, 1); a.Failure != core.FailUncounted {
		t.Errorf("renew: %+v", a)
	}
}

// CONFIG RESETSTAT begins an epoch: the master seems to have lost attachments.
func TestResetBeginsAnEpoch(t *testing.T) { // G1
	t.Parallel()
	r := newReplicated(t)
	before := r.epoch
	r.master.Do("CONFIG", "RESETSTAT")
	if now := r.learn(); now.Epoch == before || now.Quarantine <= 0 {
		t.Errorf("the epoch was %q: %+v", before, now)
	}
}

// A replica that restarts from an old dump resumes the stream if the master's backlog reaches back that far, and copies all data if not.
// Either way the attachment counts, and the replica has the newest data before it acknowledges.
func TestOldDump(t *testing.T) { // G1
	t.Parallel()
	for name, c := range map[string]struct {
		kB  int
		how string
	}{
		"the backlog has it":      {1, "sync_partial_ok:1\r"},
		"the backlog has lost it": {200, "sync_full:2\r"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &replicated{T: t, master: redistest.Start(t, redistest.Args("--repl-backlog-size", "16kb"))}
			host, port, _ := net.SplitHostPort(r.master.Addr())
			r.replica = redistest.Start(t, redistest.Args("--replicaof", host+" "+port))
			r.attached(1)
			r.replica.Do("SAVE")
			w := r.conn()
			for range c.kB {
				w.Set(t.Context(), "k", strings.Repeat("x", 1024), 0)
			}
			w.Set(t.Context(), "k", "new", 0)
			wait(t, w, 20000)
			r.replica.Restart(false)
			r.attached(2)
			w.Set(t.Context(), "other", "new", 0)
			if n := wait(t, w, 20000); n != 1 || r.replica.Do("GET", "k") != "new" {
				t.Errorf("%d replicas acknowledge; the replica has %v", n, r.replica.Do("GET", "k"))
			}
			if stats := r.master.Do("INFO", "stats").(string); !strings.Contains(stats, c.how) {
				t.Errorf("want %q in %s", c.how, stats)
			}
		})
	}
}
