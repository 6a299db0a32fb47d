package lease

import (
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Other programs depend on these: methods, fields and states are exactly those of the specification.
func TestTypesAreTheSpecifications(t *testing.T) {
	var methods []string
	for i := range reflect.TypeFor[LeaseManager]().NumMethod() {
		methods = append(methods, reflect.TypeFor[LeaseManager]().Method(i).Name)
	}
	if want := []string{"GetLiveNodes", "InstanceID", "IsOwned", "OwnedSessions", "PreferredOwner", "Release", "Start", "Stop",
		"TryAcquire"}; !slices.Equal(methods, want) {
		t.Errorf("LeaseManager has %v, want %v", methods, want)
	}
	var fields []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[LeaseInfo]()) {
		fields = append(fields, f.Name+" "+f.Type.String())
	}
	if want := []string{"SessionID string", "OwnerID string", "State lease.LeaseState", "AcquiredAt time.Time",
		"LastRenewedAt time.Time"}; !slices.Equal(fields, want) {
		t.Errorf("LeaseInfo has %v, want %v", fields, want)
	}
	states := []LeaseState{LeaseStateUnknown, LeaseStateOwned, LeaseStateOther, LeaseStateUncertain}
	if want := []LeaseState{0, 1, 2, 3}; !slices.Equal(states, want) {
		t.Errorf("states are %d, want %d", states, want)
	}
}

// A lease from the view of its owner, of another instance and of nobody.
func TestManagerTellsOfALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		a, b := newRig(t, r, "a", false, nil).managerOf(), newRig(t, r, "b", false, nil).managerOf()
		info := func(m *Manager, state LeaseState, owner string) LeaseInfo {
			t.Helper()
			i, err := m.Info(t.Context(), session)
			if err != nil || i.SessionID != session || i.State != state || i.OwnerID != owner {
				t.Errorf("%s: %+v, %v; want %v of %q", m.InstanceID(), i, err, state, owner)
			}
			return i
		}
		if a.InstanceID() != "a" {
			t.Errorf("a is %q", a.InstanceID())
		}
		info(a, LeaseStateUnknown, "")
		for range 2 { // new and repeated
			if ok, err := a.TryAcquire(t.Context(), session); !ok || err != nil {
				t.Fatalf("a acquires: %v, %v", ok, err)
			}
		}
		if ok, err := b.TryAcquire(t.Context(), session); ok || err != nil {
			t.Errorf("b acquires what a holds: %v, %v", ok, err)
		}
		first := info(a, LeaseStateOwned, "a")
		if first.AcquiredAt.IsZero() || !first.LastRenewedAt.IsZero() {
			t.Errorf("before a renewal: %+v", first)
		}
		if i := info(b, LeaseStateOther, "a"); !i.AcquiredAt.IsZero() {
			t.Errorf("b knows when a acquired it: %+v", i)
		}
		pass(15 * time.Second)
		if i := info(a, LeaseStateOwned, "a"); !i.AcquiredAt.Equal(first.AcquiredAt) || !i.LastRenewedAt.After(i.AcquiredAt) {
			t.Errorf("after a renewal: %+v", i)
		}
		if err := a.Release(t.Context(), session); err != nil || a.IsOwned(session) {
			t.Errorf("a releases: %v; owned: %v", err, a.IsOwned(session))
		}
		info(b, LeaseStateUnknown, "")
	})
}
