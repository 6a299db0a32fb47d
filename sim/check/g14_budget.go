package check

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// state is the circumstance that bears most on an instance's commands in a window. If several apply, the first counts.
type state uint8

const (
	stateRefused state = iota
	stateSilent
	stateFrozen
	stateAway
	stateCold
	stateDisturbed
	stateQuarantine
	stateCrash
	stateLeave
	stateJoin
	stateSessions
	stateBusy
	stateMoves
	stateHolder
	stateQuiet
	states
)

// budget is what an instance may send in a window in one state, by the system that it belongs to. limit adds what grows with the facts.
type budget struct {
	name     string
	looks    int64 // discoveries of polling instances, as a multiple of those at rest
	polling  int64 // commands beside them
	election int64
	intents  int64
	replicas int64 // more commands if Redis has replicas: the WAITs of attempts that fail
}

// At rest an instance discovers, renews, asserts its heartbeat and waits for work. After a change it discovers every tenth of an interval
// until all is settled. While a fault makes requests fail, the instance repeats discoveries and attempts, more and more rarely.
var budgets = [states]budget{
	stateRefused:    {"refused", 6, 135, 60, 146, 48},    // Redis answers, and refuses
	stateSilent:     {"silent", 6, 135, 60, 146, 48},     // the connection between it and Redis fails
	stateFrozen:     {"frozen", 6, 135, 60, 146, 48},     // it does not run
	stateAway:       {"Redis away", 6, 135, 60, 146, 48}, // Redis answers nobody
	stateCold:       {"cold start", 7, 30, 29, 64, 0},    // as in a quarantine; and it greets, checks Redis and loads scripts
	stateDisturbed:  {"disturbed", 6, 22, 14, 54, 0},     // another fault
	stateQuarantine: {"quarantine", 7, 22, 14, 54, 0},    // an instance that lacks leases requests some again and again
	stateCrash:      {"crash", 6, 22, 14, 54, 0},
	stateLeave:      {"leave", 6, 22, 14, 54, 0},
	stateJoin:       {"join", 6, 22, 14, 54, 0},
	stateSessions:   {"sessions change", 6, 22, 14, 54, 0},
	stateBusy:       {"busy", 6, 22, 14, 46, 0}, // clients ask, and workers write records
	stateMoves:      {"handover", 4, 20, 11, 46, 0},
	stateHolder:     {"quiet, holding", 1, 14, 7, 30, 0},
	stateQuiet:      {"quiet", 1, 12, 7, 30, 0},
}

// limit returns the most that the process may send in the window that ends now.
func (g *g14) limit(l *load, s state, held int) int64 {
	b, own, all := budgets[s], g.recent(l.causes[stateMoves]), g.recent(g.causes[stateMoves])
	batches, slots, window := 1+(held+99)/100, int64(g.w.Tuners), windowBuckets*g.bucket
	n := (all-own)/2 + 3*g.recent(g.causes[stateBusy]) + 8*g.recent(l.causes[stateBusy]) // terms, records, and clients' requests
	switch g.w.System {
	case SystemElection:
		n += b.election
	case SystemIntents:
		reads := 1 + window*4/3/max(1, int64(g.w.Poll)) // of each session, by its client, which waits for half a poll interval at least
		n += b.intents + window/int64(time.Second) + reads*int64(len(g.open))
	default:
		listed := max(g.w.fleet.alive, len(g.w.rest.beats))
		batches += (listed + 99) / 100
		looks := 2 + window*11/10/max(1, int64(g.w.Discovery)) // clocks may be fast, and timers early
		reading := g.look(listed)
		n += b.polling + looks*reading + (b.looks-1)*looks*(1+reading/3) + int64(2*min(30, listed)) // it requests leases from up to 30 owners
	}
	writes := int64(4*batches) + 3*own + slots*g.recent(g.vain) // renewals and heartbeats go out twice in a window, and may be repeated
	if g.w.replicated() && g.w.Replicas > 0 {
		return n + b.replicas + 2*writes + 3*slots*g.recent(l.slots) // a WAIT follows each; a start may try all slots before it has one
	}
	return n + writes
}

// look returns the commands of one discovery that reads everything, as few do. It reads the news first, and reports its end. SCAN finds
// sessions and heartbeats among all keys, of which a session has three (its own, its lease, its fence). They are read 1,000 at a time.
func (g *g14) look(listed int) int64 {
	pages := func(keys int) int64 { return int64(1 + keys/1000) }
	sessions := len(g.w.fleet.created)
	return 2 + 2*pages(3*sessions+listed) + 2*pages(sessions) + pages(listed)
}

// state returns the state of the window that ends now. What happened in the interval before the window counts too.
func (g *g14) state(l *load, held int) state {
	s := g.failing(l.node)
	if held > 0 {
		s = min(s, stateHolder)
	}
	for c := range stateHolder {
		if g.recent(g.causes[c])+g.recent(l.causes[c]) > 0 {
			return min(s, c)
		}
	}
	return s
}

// failing returns the state that faults put the node into, stateQuiet if none does. If the host or Redis stalls for more than a renewal
// timeout, that counts as a Redis that does not answer.
func (g *g14) failing(n *node) state {
	s := stateQuiet
	if _, longest := g.w.host.stallsWithin(g.since, g.w.now); longest > int64(g.w.RenewTimeout) {
		s = stateAway
	}
	for _, inj := range g.w.faults.since(g.since) {
		to := inj.To
		if inj.lasts() && inj.Has(fault.StepsClock) { // the step is over
			to = inj.From
		}
		switch {
		case to <= g.since-inj.Lingers():
		case inj.node == nil || inj.node == n:
			s = min(s, inj.state())
		case !inj.lasts() && inj.state() != stateQuiet: // the node is heard again
			s = min(s, stateJoin)
		}
	}
	return s
}

// state returns the state of the instances that the injection hits.
func (inj *injection) state() state {
	const harmless = fault.Starts | fault.Kills | fault.Stops | fault.Deletes | fault.Alters | fault.Holds
	switch {
	case inj.Has(harmless), inj.Kind == fault.ClockDrift, inj.did == didLife && !inj.ofRedis():
		return stateQuiet
	case inj.did == didPlan && inj.Kind.Refuses() != fault.RefusesNothing:
		return stateRefused
	case inj.Has(fault.Freezes):
		return stateFrozen
	case inj.ofRedis():
		return stateAway
	case inj.Has(fault.Silences):
		return stateSilent
	}
	return stateDisturbed
}
