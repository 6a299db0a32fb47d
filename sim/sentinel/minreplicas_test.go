package sentinel

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/latency"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// pair is a master that wants a replica, its only one, and fifty leases on it.
type pair struct {
	t               testing.TB
	master, replica *redistest.Server
	store           *redisstore.Store
	op              *core.Op
}

func newPair(t testing.TB) *pair {
	t.Helper()
	p := &pair{t: t, master: redistest.Start(t, redistest.Args("--min-replicas-to-write", "1",
		"--min-replicas-max-lag", "1"))} // 10 s unless it is set
	host, port, _ := net.SplitHostPort(p.master.Addr())
	p.replica = redistest.Start(t, redistest.Args("--replicaof", host+" "+port))
	store, err := redisstore.New(p.master.Client(), redisstore.Options{Quarantine: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	p.store, p.op = store, &core.Op{Kind: core.OpAcquire, Owner: "a", TTL: int64(time.Minute)}
	for n := range leases {
		p.op.Items = append(p.op.Items, core.Item{ID: name(n)})
	}
	p.await("the first answer", func(text string) bool { return text == "" })
	if err := store.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.do()
	p.op.Kind = core.OpRenew
	p.await("a renewal", func(text string) bool { return text == "" })
	return p
}

// do sends the op once and returns in what words it was refused, "" if it was not.
func (p *pair) do() string {
	a := p.store.Do(context.Background(), p.op)
	if a.Failure != core.FailNone {
		return a.Text
	}
	p.op.Epoch = a.Epoch
	return ""
}

// await sends the op every few milliseconds until the answer is as wanted, and returns how long that took.
func (p *pair) await(what string, wanted func(text string) bool) time.Duration {
	p.t.Helper()
	text := ""
	for begin := time.Now(); time.Since(begin) < time.Minute; wait(5 * time.Millisecond) {
		if text = p.do(); wanted(text) {
			return time.Since(begin)
		}
	}
	p.t.Fatalf("not within a minute: %s; the last answer: %q", what, text)
	return 0
}

// With min-replicas-to-write a master that has lost its replicas grants and renews nothing until one is back (G1).
func TestMinReplicas(t *testing.T) {
	p := newPair(t)
	refused := func(text string) bool { return strings.HasPrefix(text, "NOREPLICAS") }
	accepted := func(text string) bool { return text == "" }

	p.replica.Kill()
	t.Logf("the replica is killed: renewals are refused after %v", p.await("a refusal", refused))
	p.replica.Restart(false)
	t.Logf("it is started again: renewals are accepted after %v", p.await("a renewal", accepted))
	p.replica.Freeze() // as one that is cut off
	t.Logf("it falls silent: renewals are refused after %v", p.await("a refusal", refused))
	p.replica.Thaw()
	t.Logf("it answers again: renewals are accepted after %v", p.await("a renewal", accepted))
}

// BenchmarkMinReplicas compares the renewal of fifty leases with and without min-replicas-to-write.
func BenchmarkMinReplicas(b *testing.B) {
	p := newPair(b)
	for _, least := range []int{0, 1} {
		b.Run(fmt.Sprintf("min-replicas-to-write=%d", least), func(b *testing.B) {
			p.master.Do("CONFIG", "SET", "min-replicas-to-write", least)
			latency.Report(b, func(int) []time.Duration {
				all := make([]time.Duration, 500)
				for i := range all {
					begin := time.Now()
					if text := p.do(); text != "" {
						b.Fatal(text)
					}
					all[i] = time.Since(begin)
				}
				return all
			})
		})
	}
}
