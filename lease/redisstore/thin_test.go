package redisstore_test

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease/redisstore"
)

func TestThin(t *testing.T) {
	srv := redistest.Start(t)
	s, err := redisstore.New(srv.Client(), redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if w, err := s.Check(t.Context()); err != nil {
		t.Fatal(w, err)
	}
	if err := s.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := s.Do(t.Context(), &core.Op{Kind: core.OpObserve})
	t.Logf("%+v", a)
	op := core.Op{Kind: core.OpAcquire, Epoch: a.Epoch, Owner: "n1", TTL: int64(30 * time.Second), Items: []core.Item{{ID: "a"}, {ID: "b"}}}
	a = s.Do(t.Context(), &op)
	t.Logf("%+v", a)
	op.Kind = core.OpRenew
	t.Logf("%+v", s.Do(t.Context(), &op))
	op.Kind = core.OpBeat
	t.Logf("%+v", s.Do(t.Context(), &op))
	t.Logf("%+v", s.Look(t.Context(), &op, core.NewSessions([]string{"a", "b", "c"})).Look)
	op.Kind = core.OpRelease
	op.Items[0].Fence = a.Results[0].Fence
	t.Logf("%+v", s.Do(t.Context(), &op))
}
