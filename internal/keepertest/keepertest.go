// Package keepertest makes keepers and terms for the tests of observers. Only tests may import it.
package keepertest

import (
	"testing"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
)

// New returns a keeper on the server that is not started yet. The first keeper's leases are granted at once.
func New(t testing.TB, server *redistest.Server, cfg lease.Config) *lease.Keeper {
	t.Helper()
	_ = admin.Bootstrap(t.Context(), server.Client(), cfg) // refused for the second keeper, because of the first one's leases
	k, err := lease.NewKeeper(server.Client(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Over returns an ended term of the lease "thing": a keeper on its own server acquired and released it, and has stopped.
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
