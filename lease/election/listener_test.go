package election

import (
	"sync/atomic"
	"testing"
)

func TestListenersHarmNobody(t *testing.T) {
	_, client := elected(t)
	cfg := patient("a")
	told := renewals(&cfg)
	e, err := New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	block := make(chan struct{})
	defer close(block)
	e.Subscribe(func(Event) { <-block })
	e.Subscribe(func(Event) { panic("listener") })
	m := watch(t, e)
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.wait(EventLeadershipAcquired)
	renewed(t, told)
	if !e.IsLeader() {
		t.Error("a listener kept the lease from being renewed")
	}
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
	m.wait(EventLeadershipLost)
}

func TestListenerIsToldAtOnceAndRemoved(t *testing.T) {
	_, client := elected(t)
	a := join(t, client, patient("a"))
	first := a.wait(EventLeadershipAcquired)
	told := make(chan Event, 100)
	var calls atomic.Int64
	remove := a.Subscribe(func(e Event) { calls.Add(1); told <- e })
	if e := <-told; e.Kind != EventLeadershipAcquired || e.Fence != first.Fence || e.Leader != "a" {
		t.Errorf("told %+v", e)
	}
	remove()
	before := calls.Load()
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	a.wait(EventLeadershipLost)
	if calls.Load() != before {
		t.Error("told after remove")
	}
	a.Subscribe(func(e Event) { t.Errorf("told %s of a member that does not lead", e.Kind) })
}
