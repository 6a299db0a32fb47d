package check

import (
	"cmp"
	"slices"
)

// What an owner need not know yet: that its key was deleted, or that Redis lost its data. Each guarantee says how long that excuses.

// deletedWithin reports whether the plan deleted the session's key between from and to, ends included.
func (s *session) deletedWithin(from, to int64) bool {
	i, _ := slices.BinarySearchFunc(s.deletes, from, func(inj *injection, at int64) int { return cmp.Compare(inj.start, at) })
	return i < len(s.deletes) && s.deletes[i].start <= to
}

// deletedUnknown reports whether the plan deleted the session's key so shortly before t that its owner, which learns of it when it renews,
// need not know yet. If Redis also loses its data meanwhile, the owner asserts its lease, and learns of it after the quarantine.
func (w *world) deletedUnknown(s *session, t int64) bool { return w.deletionKnown(s, t) != 0 }

// deletionKnown is when that owner knows at the latest, 0 if no key was deleted of which it need not know.
func (w *world) deletionKnown(s *session, t int64) int64 {
	renewal := int64(w.Renew + w.RenewTimeout)
	for _, inj := range s.deletes {
		at := inj.start
		if at > t {
			return 0
		}
		known := at + renewal
		for _, loss := range w.losses {
			if end := max(loss.start, loss.end); loss.start <= at+int64(w.TTL) && end >= at {
				known = max(known, end+int64(w.TTL)+renewal)
			}
		}
		if t <= known {
			return known
		}
	}
	return 0
}

// forgets reports whether a quarantine follows the injection: its own, or that of a loss of data while it kept everybody from Redis.
// The quarantine begins when somebody can write again.
func (w *world) forgets(inj *injection) bool {
	if inj.forgets() || !inj.ofRedis() {
		return inj.forgets()
	}
	return slices.ContainsFunc(w.losses, func(loss *injection) bool {
		return loss.start >= inj.start && (inj.open || loss.start <= inj.end)
	})
}

// forgotten reports whether Redis lost data so shortly before that its quarantine may not be over, by a fault of which that holds.
func (w *world) forgotten(at int64, holds func(inj *injection, since int64) bool) bool {
	return slices.ContainsFunc(w.since(at), func(inj *injection) bool {
		if !w.forgets(inj) {
			return false
		}
		r, ok := w.reach(inj)
		return ok && r.from <= at && at <= r.to && holds(inj, r.from)
	})
}

// quarantined reports whether Redis lost data so shortly before that nothing need be granted yet.
func (w *world) quarantined(at int64) bool {
	return w.forgotten(at, func(*injection, int64) bool { return true })
}

// failedOver reports whether what Redis holds about then is that of a replica, and a quarantine is still to end.
func (w *world) failedOver(at int64) bool {
	return w.forgotten(at, func(inj *injection, _ int64) bool { return inj.failsOver() })
}

// twoOwners reports whether two instances may re-assert the lease: its key was deleted by hand, and before the first owner
// could know, Redis lost the fence of the second.
func (w *world) twoOwners(s *session, at int64) bool {
	return w.forgotten(at, func(_ *injection, since int64) bool { return s.deletedWithin(since-int64(w.TTL), since) })
}
