package main

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/leasetest"
	"github.com/leasestorm/leasestorm/lease/poll"
)

// A program can test its work under leases without a Redis and without waiting. The session is polled every 5 s, but not while another
// instance owns it.
func TestAnotherInstanceHasTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time passes as fast as the test waits for it
		const id = "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e"
		r := leasetest.New(t)
		r.Client().Set(t.Context(), "session:"+id, `{"id":"`+id+`"}`, 0)
		var polled atomic.Int64
		m, err := poll.New(r.Client(), lease.Config{}, poll.Config{Poll: func(ctx context.Context, s poll.Session) error {
			polled.Add(1)
			return once(ctx, s)
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer m.Stop()
		<-time.After(12 * time.Second)
		if n := polled.Swap(0); n != 3 {
			t.Errorf("polled %d times in 12 s, want 3", n)
		}
		r.Take("poll:lease:"+id, "another", time.Minute)
		<-time.After(59 * time.Second)
		if n := polled.Swap(0); n != 0 {
			t.Errorf("polled %d times while another had it", n)
		}
		<-time.After(12 * time.Second)
		if polled.Load() == 0 {
			t.Error("not polled again")
		}
	})
}
