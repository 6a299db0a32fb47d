package store

import (
	"slices"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// Keys, leases and records of a system have names of one kind.
func TestNames(t *testing.T) {
	for names, want := range map[intent.Names]struct{ key, lease, slot, reason string }{
		{}:              {"intent:", "intent:lease:resource:a", "slot:1", "R_NO_SLOT"},
		intent.ADR003(): {"v3:", "lease:service:a", "tuner:1", "R_NO_TUNER"},
	} {
		f := setup(t)
		f.store = f.open(Options{Names: names})
		f.must(admin.Bootstrap(t.Context(), f.client, f.store.Options()))
		s := session("a")
		_, _, err := f.store.PutLeased(t.Context(), s.ID, s.Request, keyTTL)
		f.must(err)
		b := f.bus("w")
		f.write(b, intentbus.Write{Session: s.ID, State: intent.StateEnded, Reason: intent.ReasonNoSlot, Ack: f.fetch(b)[0].ID})
		keys := f.client.Keys(t.Context(), "*").Val()
		if !slices.Contains(keys, want.lease) || !slices.Contains(keys, want.key+"session:"+s.ID) {
			t.Errorf("the keys are %q", keys)
		}
		for _, key := range keys {
			if !strings.HasPrefix(key, want.key) && !strings.Contains(key, want.lease) {
				t.Errorf("the key %q has neither the prefix nor is it of a lease", key)
			}
		}
		f.must(f.client.Set(t.Context(), f.store.opt.Leases.LeasePrefix+want.slot, "w", 0).Err())
		var leases []string
		f.must(b.Leases(t.Context(), func(names []string) error {
			leases = append(leases, names...)
			return nil
		}))
		if !slices.Contains(leases, want.slot) || len(leases) != 2 {
			t.Errorf("the leases are %q", leases)
		}
		if got := f.client.HGet(t.Context(), want.key+"session:"+s.ID, "reason").Val(); got != want.reason {
			t.Errorf("the record says %q, want %q", got, want.reason)
		}
		if got := f.get(s.ID).Reason; got != intent.ReasonNoSlot {
			t.Errorf("the reason is read as %q", got)
		}
	}
}
