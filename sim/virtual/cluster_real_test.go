package virtual

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// These tests hold what the model takes for granted of a cluster against a real one.

// said is the code of what a server answers to a script with these keys, OK if it executes it.
func said(s *redistest.Server, keys ...string) string {
	args := []any{"EVAL", "return 1", len(keys)}
	for _, key := range keys {
		args = append(args, key)
	}
	c := s.Client()
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := c.Do(ctx, args...).Err(); err != nil {
		code, _, _ := strings.Cut(err.Error(), " ")
		return code
	}
	return "OK"
}

// modelled is what the model's server answers.
func modelled(w *world, p *peer, keys ...string) string {
	why := p.redirectsKeys(keys)
	code, _, _ := strings.Cut(why, " ")
	if code == "" {
		return "OK"
	}
	return code
}

// What a script with several keys is answered while their slot moves: it is executed where all are, if that is where the slot comes from;
// refused with TRYAGAIN if some have moved, with ASK if all have; and elsewhere sent away. What has no key is executed anywhere, and what is
// published is heard at all servers. A key keeps its end, replicas lose and get what their masters do, and the life is another one.
func TestSlotMovesAsInTheModelLong(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster of seven servers")
	}
	t.Parallel()
	c := redistest.StartClustered(t, "{x}")
	from, to := c.Servers[0], c.Servers[3]
	first, second, never := "{x}first", "{x}second", "{x}never"
	from.Do("SET", first, "1", "PX", 60_000)
	from.Do("SET", second, "2")

	w := clusterWorld(t, 2)
	se := w.servers.sentinels
	source, target := se.shards[0].master, se.shards[1].master
	for _, name := range []string{first, second} {
		source.s.Obey(0, []string{"SET", name, "1"})
	}
	same := func(when string) {
		t.Helper()
		for _, keys := range [][]string{{first, second}, {first}, {second}, {first, never}, {second, never}, {never}} {
			for _, at := range []struct {
				what  string
				real  *redistest.Server
				model *peer
			}{{"the source", from, source}, {"the target", to, target}, {"a replica", c.Servers[1], se.peers[1]}} {
				if got, want := modelled(w, at.model, keys...), said(at.real, keys...); got != want {
					t.Errorf("%s, %v at %s: the model answers %s, Redis %s", when, keys, at.what, got, want)
				}
			}
		}
	}
	same("at rest")

	slot := from.Do("CLUSTER", "KEYSLOT", first)
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.Do("CLUSTER", "MYID"))
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.Do("CLUSTER", "MYID"))
	se.cluster.move = &move{from: source, to: target}
	same("before the first key")

	_, port, _ := net.SplitHostPort(to.Addr())
	migrate := func(name string) {
		from.Do("MIGRATE", "127.0.0.1", port, "", 0, 5000, "KEYS", name)
		source.s.Obey(0, []string{"DEL", name})
	}
	migrate(first)
	same("with one moved")
	migrate(second)
	same("with both moved")

	heard := c.Servers[1].Client().Subscribe(t.Context(), "channel")
	defer heard.Close()
	if _, err := heard.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*redistest.Server{to, from, c.Servers[6]} {
		s.Do("CLUSTER", "SETSLOT", slot, "NODE", to.Do("CLUSTER", "MYID"))
	}
	c.AwaitSettled()
	target.s.Obey(0, []string{"SET", first, "1"})
	w.servers.sentinels.cluster.settle(se.cluster.move)
	same("after it")

	if left := to.Do("PTTL", first).(int64); left < 1 || left > 60_000 {
		t.Errorf("%d ms are left of 60,000 at the target", left)
	}
	if left := to.Do("PTTL", second).(int64); left != -1 {
		t.Errorf("a key without an end has %d ms left at the target", left)
	}
	if n := from.Do("WAIT", 2, 5000).(int64); n != 2 {
		t.Errorf("WAIT, which has no key, tells of %d replicas at the source", n)
	}
	to.Do("PUBLISH", "channel", "a word")
	if m, err := heard.ReceiveMessage(t.Context()); err != nil || m.Payload != "a word" {
		t.Errorf("at another shard's replica: %v, %v", m, err)
	}
}

// A master that sees no majority of masters goes on for the node time-out, and no longer than half a one more; once it sees one again it
// refuses for at least half a second more. One that was started refuses for two seconds.
func TestMinorityServesNobodyLong(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster of seven servers")
	}
	t.Parallel()
	c := redistest.StartClustered(t, "{x}")
	master, others := c.Servers[0], []*redistest.Server{c.Servers[3], c.Servers[6]}
	until := func(want string, within time.Duration, since time.Time) time.Duration {
		t.Helper()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		last := ""
		for ; time.Since(since) < within; <-tick.C {
			if last = said(master, "{x}a", "{x}b"); last == want {
				return time.Since(since)
			}
		}
		t.Fatalf("not %s within %v, but %s", want, within, last)
		return 0
	}
	for _, s := range others {
		s.Freeze()
	}
	const timeout = time.Second // of StartClustered
	frozen := time.Now()
	down := until("CLUSTERDOWN", 20*time.Second, frozen)
	for _, s := range others {
		s.Thaw()
	}
	back := until("OK", 20*time.Second, time.Now())
	t.Logf("down %v after the others were gone, back %v after they were", down, back)
	if down < timeout*9/10 || back < time.Duration(rejoinMin)*9/10 {
		t.Errorf("it served for %v without a majority, and after %v with one", down, back)
	}
	c.AwaitSettled()
	for _, s := range c.Replicas() {
		s.Freeze() // so that none takes its place
		defer s.Thaw()
	}
	began := time.Now()
	master.Restart(false)
	if got := said(master, "{x}a"); got != "CLUSTERDOWN" {
		t.Errorf("a process that has begun answers %s", got)
	}
	if took := until("OK", 20*time.Second, began); took < time.Duration(writable) {
		t.Errorf("it serves %v after its start", took)
	}
}

// An old master that was frozen hears when it goes on, and sends clients away.
func TestFrozenMasterIsDeposedLong(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster of seven servers")
	}
	t.Parallel()
	c := redistest.StartClustered(t, "{x}")
	old := c.Master()
	old.Freeze()
	c.AwaitSwitch(old)
	old.Thaw()
	answers := map[string]int{}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); answers["MOVED"] == 0 && time.Now().Before(end); <-tick.C {
		answers[said(old, "{x}a")]++
	}
	t.Log(answers)
	if answers["MOVED"] == 0 {
		t.Errorf("%v", answers)
	}
}

// clusterWorld is a world of a cluster at its beginning.
func clusterWorld(t *testing.T, replicas int) *world {
	t.Helper()
	w, _ := clustered(t, replicas, nil, nil)
	return w
}

// clustered is replicated for a cluster.
func clustered(t *testing.T, replicas int, faults []fault.Fault, act func(w *world)) (*world, []history.Event) {
	t.Helper()
	var events []history.Event
	cfg := Config{
		Nodes: 3, Sessions: 6, TTL: 10 * time.Second, Storm: time.Minute, Calm: 30 * time.Second, Cluster: true, Replicas: replicas,
	}.withDefaults()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	w := newWorld(cfg, fault.Plan{Faults: faults}, 1, func(e history.Event) { events = append(events, e) })
	if act != nil {
		w.after(int64(cfg.Start+cfg.Storm/2), func() { act(w) })
	}
	w.run()
	return w, events
}
