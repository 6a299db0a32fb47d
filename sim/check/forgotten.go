package check

import "slices"

// Facts that an owner need not know yet: a deleted key, or a loss of Redis' data. Each guarantee defines for how long.

func (s *session) deletedWithin(from, to int64) bool {
	return slices.ContainsFunc(s.deletes, func(inj *injection) bool { return from <= inj.From && inj.From <= to })
}

// deletedUnknown reports whether the owner need not know yet at t that the plan deleted the session's key. An owner learns of it when it
// renews. If Redis also loses its data meanwhile, the owner asserts its lease, and learns of the deletion after the quarantine.
func (w *world) deletedUnknown(s *session, t int64) bool { return w.deletionKnown(s, t) != 0 }

// deletionKnown returns when that owner knows at the latest; 0 if there is no such deletion.
func (w *world) deletionKnown(s *session, t int64) int64 {
	if !w.allows(deletedKey) {
		return 0
	}
	renewal := int64(w.Renew + w.RenewTimeout)
	for _, inj := range s.deletes {
		at := inj.From
		if at > t {
			return 0
		}
		known := at + renewal
		for _, loss := range w.losses {
			end := loss.To
			if loss.lasts() {
				end = loss.From
			}
			if loss.From <= min(t, at+int64(w.TTL)) && end >= at {
				known = max(known, end+int64(w.TTL)+renewal)
			}
		}
		if t <= known {
			return known
		}
	}
	return 0
}

// forgets reports whether a quarantine follows the injection, by itself or by a loss of data while it kept all instances from Redis. The
// quarantine begins when an instance can write again.
func (w *world) forgets(inj *injection) bool {
	return inj.forgets() || inj.ofRedis() && slices.ContainsFunc(w.losses, func(loss *injection) bool {
		return inj.From <= loss.From && loss.From <= inj.To
	})
}

// quarantines returns the losses of Redis' data of which a quarantine may last at at, so that nothing need be granted then.
func (w *world) quarantines(at int64) (losses []*injection) {
	for _, inj := range w.since(at) {
		if r, ok := w.reach(inj); ok && r.from <= at && at <= r.to && w.forgets(inj) {
			losses = append(losses, inj)
		}
	}
	return losses
}

// twoOwners reports whether two instances may assert the lease: its key was deleted by hand, and Redis lost the second owner's fence before
// the first owner could know.
func (w *world) twoOwners(s *session, at int64) bool {
	return slices.ContainsFunc(w.quarantines(at), func(inj *injection) bool { return s.deletedWithin(inj.From-int64(w.TTL), inj.From) })
}
