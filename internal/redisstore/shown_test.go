package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// Whoever may write one key of a lease takes neither the time nor the memory of who reads it: Redis itself cuts what it sends.
func TestRedisCutsForeignValues(t *testing.T) {
	server := redistest.Start(t)
	c := server.Client()
	c.Set(t.Context(), "poll:lease:x", strings.Repeat("x", 1<<20), time.Minute)
	c.Set(t.Context(), "beat:a", strings.Repeat("x", 1<<20), 0)
	w, err := redisstore.NewWire(redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run := func(call redisstore.Call) ([]any, error) {
		reply, err := c.Eval(t.Context(), call.Text(), call.Keys, call.Args...).Slice()
		for _, v := range reply {
			if text, ok := v.(string); ok && len(text) > redisstore.NameMax+1 {
				t.Errorf("Redis sends %d bytes of a foreign value", len(text))
			}
		}
		return reply, err
	}
	first, err := run(w.Call(&core.Op{Kind: core.OpObserve}))
	if err != nil {
		t.Fatal(err)
	}
	op := &core.Op{Epoch: first[0].(string), Owner: "a", TTL: int64(time.Second), Items: []core.Item{{ID: "x", Fence: 1}}}
	for _, op.Kind = range []core.OpKind{core.OpAcquire, core.OpObserve, core.OpRenew, core.OpRelease, core.OpReassert} {
		if op.Kind == core.OpReassert {
			c.Set(t.Context(), "{poll:lease:x}:fence", "9", 0) // it is superseded, and told by whom
		}
		reply, err := run(w.Call(op))
		if err != nil {
			t.Fatal(err)
		}
		if a := w.Answer(op, reply); a.Failure != core.FailNone || len(a.Results[0].Owner) != redisstore.NameMax+1 {
			t.Errorf("op %d: %.100v", op.Kind, a)
		}
	}
	a, err := w.LookOwners(op, core.NewSessions([]string{"x"}), redisstore.Reader{Run: run})
	if err != nil || len(a.Look.Owners[0]) != redisstore.NameMax+1 {
		t.Errorf("a look shows an owner of %d bytes, %v", len(a.Look.Owners[0]), err)
	}
	s := newStore(t, c, redisstore.Options{})
	g := []redisstore.Glance{{Lease: "x", Prefix: "beat:", Of: "a"}}
	if err := s.Glances(t.Context(), g); err != nil || len(g[0].Owner) != redisstore.NameMax+1 {
		t.Errorf("a glance shows an owner of %d bytes, %v", len(g[0].Owner), err)
	}
	g = []redisstore.Glance{{Lease: "y", Prefix: "beat:", Of: "a"}}
	if err := s.Glances(t.Context(), g); err != nil || !g[0].Beats || len(g[0].Heartbeat) != redisstore.NameMax+1 {
		t.Errorf("a glance shows a heartbeat of %d bytes, %v", len(g[0].Heartbeat), err)
	}
}
