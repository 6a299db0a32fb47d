package check

import (
	"iter"
	"slices"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// faults has the intervals of the run's faults, as far as the history has shown them.
type faults struct {
	*run
	all     []*injection // in order of their start
	passed  int          // number of the first ones that reach no recent change any more
	losses  []*injection // those after which Redis returns as another one
	lasting []*injection // those that are not healed
}

// add adds an interval that begins. A fault of the plan that hit servers delays nothing, but its effects do.
func (x *faults) add(inj *injection) {
	if inj.lasts() {
		x.lasting = append(x.lasting, inj)
	}
	if inj.did == didServers {
		return
	}
	at := len(x.all)
	for at > 0 && x.all[at-1].From > inj.From { // some are noticed late
		at--
	}
	x.all = slices.Insert(slices.Clone(x.all), at, inj) // callers may still iterate over the old list
	x.passed = min(x.passed, at)
	if inj.forgets() {
		x.losses = append(x.losses, inj)
	}
}

// end ends an interval now.
func (x *faults) end(inj *injection) {
	x.lasting = slices.DeleteFunc(x.lasting, func(o *injection) bool { return o == inj })
	inj.To = x.now
}

// lossDetected records that an instance sees all past losses of data now, unless one saw them earlier.
func (x *faults) lossDetected() {
	for _, inj := range x.losses {
		if !inj.lasts() && inj.detectedAt == 0 {
			inj.detectedAt = x.now
		}
	}
}

// under reports whether an open fault has one of the effects, on the node or, if the node is nil, on any target.
func (x *faults) under(n *node, any fault.Effect) bool {
	for _, inj := range x.lasting {
		if inj.Has(any) && (n == nil || inj.node == n) {
			return true
		}
	}
	return false
}

// horizonTTLs is the time in TTLs after the end of a fault from which the fault cannot reach a recent change any more.
const horizonTTLs = 16

// since returns the injections that may delay a change after from, in order of their start.
func (x *faults) since(from int64) []*injection {
	horizon := x.now - horizonTTLs*int64(x.TTL)
	if from < horizon {
		return x.all
	}
	for ; x.passed < len(x.all); x.passed++ {
		inj := x.all[x.passed]
		r, _ := x.reach(inj)
		if inj.forgets() && inj.detectedAt == 0 || max(inj.To, r.to) >= horizon-int64(x.TTL) {
			break
		}
	}
	return x.all[x.passed:]
}

// reachOfServers returns how long a fault of the servers can have an effect. An instance retries a refused or unanswered request within a
// quarter of a renewal interval. The first script that finds a new epoch begins a quarantine; this is a renewal at the latest. An instance
// that notices another server, whose clock may differ, acquires nothing for a TTL.
func (x *faults) reachOfServers(inj *injection, end int64) span {
	seen := inj.From + int64(x.Renew)
	switch {
	case inj.did != didLife:
		return span{inj.From, end + int64(x.Renew)/4}
	case inj.failsOver():
		seen = max(inj.From+x.clockWithin(), inj.detectedAt)
	case inj.detectedAt != 0:
		seen = inj.detectedAt
	}
	return span{inj.From, seen + int64(x.TTL)}
}

// missedFailover reports whether the fault, which ends now, may have kept an instance from hearing of a failover. The clocks of two
// servers may differ, so an instance that hears of a failover acquires nothing for a TTL. An undisturbed instance hears of it at its next
// renewal or heartbeat. Faults with less time between them count as one.
func (x *faults) missedFailover(by *injection) bool {
	if !slices.ContainsFunc(x.losses, (*injection).failsOver) {
		return false
	}
	hears := int64(max(x.Renew, x.Heartbeat) + x.RenewTimeout)
	since := by.From
	lasted := func(inj *injection) bool { return inj.To >= since-hears-inj.Lingers() }
	for was := since + 1; since < was; {
		was = since
		for _, inj := range slices.Backward(x.since(since - hears)) {
			if (inj.ofRedis() || inj.Has(fault.Silences) && (by.node == nil || inj.node == by.node)) && lasted(inj) && !inj.Has(fault.Instant) {
				since = min(since, inj.From)
			}
		}
	}
	return slices.ContainsFunc(x.losses, func(inj *injection) bool { return inj.failsOver() && lasted(inj) })
}

// reach returns the time in which the injection, or its aftermath, can delay other instances, and false if neither can delay any.
func (x *faults) reach(inj *injection) (span, bool) { return x.reachBy(inj, x.now) }

// reachBy is like reach, but ignores events after the time at, so the injection may not have been healed yet.
func (x *faults) reachBy(inj *injection, at int64) (span, bool) {
	of := inj.Interval
	of.To = max(min(of.To, at), of.From)
	if inj.did != didPlan {
		return x.reachOfServers(inj, of.To), true
	}
	if x.forgets(inj) {
		of.Does |= fault.Forgets
	}
	to, ok := of.Reach(x.Timings, inj.detectedAt)
	return span{of.From, to}, ok
}

// reaching yields the injections, other than but, whose reach ends at from or later. They come in order of their start.
func (x *faults) reaching(from int64, but *injection, reach func(*injection) (span, bool)) iter.Seq2[*injection, span] {
	return func(yield func(*injection, span) bool) {
		for _, inj := range x.since(from) {
			if inj == but || but != nil && but.Kind.Scope() == fault.ScopeNone && inj.N == but.N {
				continue
			}
			if r, ok := reach(inj); ok && r.to >= from && !yield(inj, r) {
				return
			}
		}
	}
}

// overlapping returns the first injection whose reach overlaps the time between from and to, or nil. It leaves out the injection but.
func (x *faults) overlapping(from, to int64, but *injection, reach func(*injection) (span, bool)) *injection {
	for inj, r := range x.reaching(from, but, reach) {
		if r.from <= to {
			return inj
		}
	}
	return nil
}

// delayed returns an injection, except but, that could delay an acquisition between from and to; nil if there is none.
func (x *faults) delayed(from, to int64, but *injection) *injection {
	return x.overlapping(from, to, but, func(inj *injection) (span, bool) {
		r, ok := x.reach(inj)
		if inj.blocksAcquire {
			r.to += int64(x.TTL)
		}
		return r, ok
	})
}

// hindered returns an injection of the node or of Redis, except but, that could delay the node between from and to; nil if there is
// none.
func (x *faults) hindered(n *node, from, to int64, but *injection) *injection {
	return x.overlapping(from, to, but, func(inj *injection) (span, bool) {
		r, ok := x.reach(inj)
		return r, ok && (inj.node == nil || inj.node == n) && x.allows(hinderedStops)
	})
}

// Facts that an owner need not know yet: a deleted key, or a loss of Redis' data. Each guarantee defines how long an owner may not
// know them.

func (s *session) deletedWithin(from, to int64) bool {
	return slices.ContainsFunc(s.deletes, func(inj *injection) bool { return from <= inj.From && inj.From <= to })
}

// deletedUnknown reports whether the owner need not know yet at t that the plan deleted the session's key. An owner learns of it when it
// renews. If Redis also loses its data meanwhile, the owner asserts its lease, and learns of the deletion after the quarantine.
func (x *faults) deletedUnknown(s *session, t int64) bool { return x.deletionKnown(s, t) != 0 }

// deletionKnown returns the latest time at which that owner learns of the deletion; 0 if there is no such deletion.
func (x *faults) deletionKnown(s *session, t int64) int64 {
	if !x.allows(deletedKey) {
		return 0
	}
	renewal := int64(x.Renew + x.RenewTimeout)
	for _, inj := range s.deletes {
		at := inj.From
		if at > t {
			return 0
		}
		known := at + renewal
		for _, loss := range x.losses {
			end := loss.To
			if loss.lasts() {
				end = loss.From
			}
			if loss.From <= min(t, at+int64(x.TTL)) && end >= at {
				known = max(known, end+int64(x.TTL)+renewal)
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
func (x *faults) forgets(inj *injection) bool {
	return inj.forgets() || inj.ofRedis() && slices.ContainsFunc(x.losses, func(loss *injection) bool {
		return inj.From <= loss.From && loss.From <= inj.To
	})
}

// quarantines returns the losses of Redis' data whose quarantine may last at the time at, so that Redis need not grant anything at
// that time.
func (x *faults) quarantines(at int64) (losses []*injection) {
	for _, inj := range x.since(at) {
		if r, ok := x.reach(inj); ok && r.from <= at && at <= r.to && x.forgets(inj) {
			losses = append(losses, inj)
		}
	}
	return losses
}

// twoOwners reports whether two instances may assert the lease: its key was deleted by hand, and Redis lost the second owner's fence before
// the first owner could know.
func (x *faults) twoOwners(s *session, at int64) bool {
	return slices.ContainsFunc(x.quarantines(at), func(inj *injection) bool { return s.deletedWithin(inj.From-int64(x.TTL), inj.From) })
}
