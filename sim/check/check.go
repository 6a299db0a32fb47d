// Package check is the judge. It reads the history of a run and returns a verdict for each guarantee (docs/guarantees.md): it held, it
// broke, or the run did not put it to the test.
//
// The judge uses recorded data only. It imports nothing of the library that it judges, so anybody can judge a saved run again with
// the same result.
//
// Terms:
//
//	allowance         the tolerated distance between two stamps of one fact, or the tolerated delay of a step beyond its bound
//	calm              the phase after the storm, in which every fault is healed and the fleet settles
//	challenge         a fault, release or exit that could move a lease from an owner that trusts it
//	change            one judged case of a guarantee: a takeover, a handover, a renewal, a poll
//	epoch             one life of Redis' data; a loss of data ends it, and a quarantine begins the next one
//	excused           not judged, because another fault could delay the change by so much that no limit means anything
//	exercised         the number of judged changes of a guarantee
//	failover          another Redis server becomes the master
//	fence             the number that grows with each grant of a lease (a fencing token)
//	injection         a fault of the plan that was injected
//	loss              Redis returns with another identity, or without its data
//	promise           the deadline of a change, and everything that may move that deadline
//	quarantine        a TTL after a loss in which nothing is granted
//	reach             the time in which an injection can delay what others do
//	rest              the fleet's steady state: balanced, and no lease moves
//	settle            the time in which a fleet comes to rest after a change
//	stall             a time in which the host did not run the harness
//	tap               the replication stream of Redis, which shows every write
//	trust window      the time in which an owner may act on its term without an answer from Redis
package check

import (
	"errors"
	"fmt"
	"iter"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/nodelogs"
)

// ErrUnordered reports a history whose events are not in order of time.
var ErrUnordered = errors.New("check: history is not in order of time")

// Judge reads the events, which must be in order of T, and returns a verdict for each guarantee of the run's system. It reads logs after
// the last event. Without logs (nil), everything that needs them is unknown.
//
// An error of the sequence (a truncated file) or an event out of order ends the reading. Judge then returns that error and a result
// for the events before it. In that result, a guarantee does not pass if the missing part could have broken it.
func Judge(p Params, events iter.Seq2[history.Event, error], logs *nodelogs.Logs) (Result, error) {
	return judging(p, logs).judge(events, logs)
}

func judging(p Params, logs *nodelogs.Logs) *world {
	w, s := newWorld(p), systemOf(p.System)
	w.checkers = s.checkers(logs)
	for i, c := range w.checkers {
		c.attach(w, s.guarantees[i].Verdict)
	}
	return w
}

func (w *world) judge(events iter.Seq2[history.Event, error], logs *nodelogs.Logs) (Result, error) {
	err := w.read(events)
	w.finish(err)
	r := Result{Stats: w.progress.stats, Complete: w.progress.complete && err == nil}
	for _, c := range w.checkers {
		v := c.verdict()
		switch {
		case !w.Judges(v.ID):
			v = Verdict{ID: v.ID, Spec: v.Spec, Limit: v.Limit, Unit: v.Unit, Verdict: Unknown, Detail: "not judged with real replicas yet"}
		case v.Verdict == Pass && !r.Complete: // the missing part could have broken it
			v.Verdict, v.Detail = Unknown, "held as far as recorded, but "+w.progress.missing(w.Interrupted)+"; "+v.Detail
		}
		r.Verdicts = append(r.Verdicts, v)
	}
	if logs != nil {
		r.Stats.Entries = logs.Entries()
		if err == nil {
			err = logs.Err()
		}
	}
	return r, err
}

func (w *world) read(events iter.Seq2[history.Event, error]) error {
	var e history.Event // reused: no checker keeps it
	for next, err := range events {
		if err != nil {
			return err
		}
		e = next
		if e.T < w.now { // w.now begins as the start of the run, from which times count
			return fmt.Errorf("%w: event %d (%s) has the time %s, and the event before it %s", ErrUnordered, w.seen+1,
				e.Kind, clock(e.T), clock(w.now))
		}
		w.take(&e)
	}
	return nil
}

// Watch counts challenges during a run. The count is approximate, because events may come late. A Watch is not safe for concurrent
// use.
type Watch struct{ w *world }

// NewWatch returns a Watch for a new run.
func NewWatch(p Params) *Watch {
	w := newWorld(p)
	w.watches = true
	return &Watch{w}
}

// See takes the next event.
func (x *Watch) See(e history.Event) {
	e.T = max(e.T, x.w.now)
	x.w.take(&e)
}

// Challenges returns how many leases were taken over from challenged owners so far.
func (x *Watch) Challenges() int { return x.w.challenges.total }
