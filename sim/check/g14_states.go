package check

import "github.com/leasestorm/leasestorm/sim/fault"

// Load is the number of commands that instances sent in one state. Sent and Limit are of the window that came closest to its limit.
type Load struct {
	State   string `json:"state"`
	Windows int    `json:"windows"`
	Most    int64  `json:"most"`
	Sent    int64  `json:"sent"`  // commands in the window that came closest to its limit
	Limit   int64  `json:"limit"` // limit of that window
}

// closer reports whether the window came closer to its limit than a window with the given numbers.
func (l Load) closer(sent, limit int64) bool { return limit == 0 || l.Sent*limit > sent*l.Limit }

func (l *Load) see(sent, limit int64) {
	l.Windows++
	l.Most = max(l.Most, sent)
	if (Load{Sent: sent, Limit: limit}).closer(l.Sent, l.Limit) {
		l.Sent, l.Limit = sent, limit
	}
}

// state is the circumstance that bears most on an instance's commands in a window.
type state uint8

const (
	stateRefused state = iota
	stateSilent
	stateFrozen
	stateAway
	stateDisturbed
	stateQuarantine
	stateCold
	stateCrash
	stateLeave
	stateJoin
	stateSessions
	stateMoves
	stateBusy
	stateHolder
	stateQuiet
	states
)

var stateNames = [states]string{
	"refused", "silent", "frozen", "Redis away", "disturbed", "quarantine", "cold start", "crash", "leave", "join",
	"sessions change", "handover", "busy", "quiet, holding", "quiet",
}

func (s state) String() string { return stateNames[s] }

// state returns the state of the window that ends now. If several apply, the first in the list of states counts.
func (g *g14) state(l *load) state {
	for f, s := range []state{failRefusing: stateRefused, failNetwork: stateSilent, failFrozen: stateFrozen, failRedis: stateAway,
		failOther: stateDisturbed} {
		if f > 0 && g.failing(l, failure(f)) {
			return s
		}
	}
	if g.quarantined() {
		return stateQuarantine
	}
	if g.since(max(1, l.began)) {
		return stateCold
	}
	for c, s := range []state{changeCrash: stateCrash, changeLeave: stateLeave, changeJoin: stateJoin, changeSessions: stateSessions} {
		if g.since(g.changes[c]) {
			return s
		}
	}
	now := g.now()
	switch {
	case g.writes.sum(now, sinceBuckets) > 0 || l.requests.sum(now, sinceBuckets) > 0:
		return stateBusy
	case g.since(g.changes[changeMoves]):
		return stateMoves
	case l.node.current != nil && len(l.node.current.held) > 0:
		return stateHolder
	}
	return stateQuiet
}

type failure uint8

const (
	failNothing  failure = iota
	failRefusing         // Redis answers, and refuses
	failNetwork          // the instance's connection to Redis
	failFrozen           // the instance does not run
	failRedis            // Redis answers nobody, or returns as another one
	failOther
	failures
)

// failureOf returns how the injection fails its node, or all nodes if it names none.
func failureOf(inj *injection) failure {
	switch {
	case inj.did == didStray:
		return failNetwork
	case inj.did == didLife && !inj.ofRedis():
		return failNothing
	case inj.did != didPlan:
		return failRedis
	case inj.has(fault.Starts|fault.Kills|fault.Stops|fault.Deletes|fault.Alters|fault.Holds) || inj.Kind == fault.ClockDrift:
		return failNothing
	case inj.Kind.Refuses() > fault.RefusesNothing:
		return failRefusing
	case inj.has(fault.Freezes):
		return failFrozen
	case inj.ofRedis():
		return failRedis
	case inj.silences():
		return failNetwork
	}
	return failOther
}

// lasts reports whether the injection lasts until it is healed.
func (inj *injection) lasts() bool {
	if inj.did != didPlan {
		return inj.did == didOutage || inj.did == didStray
	}
	return !inj.has(fault.Instant | fault.StepsClock)
}

// tally counts by buckets, as far back as budgets need. The zero value is empty.
type tally struct {
	last int64 // the newest bucket
	n    [tallyBuckets]int64
}

const tallyBuckets = 64

func (t *tally) add(bucket, n int64) {
	t.turn(bucket)
	t.n[bucket%tallyBuckets] += n
}

func (t *tally) turn(bucket int64) {
	for t.last = max(t.last, bucket-tallyBuckets); t.last < bucket; {
		t.last++
		t.n[t.last%tallyBuckets] = 0
	}
}

func (t *tally) sum(bucket, buckets int64) (sum int64) {
	t.turn(bucket)
	for b := bucket; b > bucket-buckets && b >= 0; b-- {
		sum += t.n[b%tallyBuckets]
	}
	return sum
}
