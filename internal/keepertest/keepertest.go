// Package keepertest makes keepers and terms for the tests of what watches them. Nothing outside of tests may import it.
package keepertest

import (
	"testing"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
)

// New returns a keeper on the server that is not started yet. The first one's leases are granted at once.
func New(t testing.TB, server *redistest.Server, cfg lease.Config) *lease.Keeper {
	t.Helper()
	_ = admin.Bootstrap(t.Context(), server.Client(), cfg) // refused of the second, which finds the first one's leases
	k, err := lease.NewKeeper(server.Client(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Over returns a term of the lease "thing" that is over: a keeper with a server of its own acquired it and gave it back, and has stopped.
func Over(t testing.TB, cfg lease.Config) *lease.Lease {
	t.Helper()
	k := New(t, redistest.Start(t), cfg)
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	h, err := k.Acquire(t.Context(), "thing")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := k.Stop(); err != nil {
		t.Fatal(err)
	}
	return h
}
