// Package check is the judge: it reads the history of a run and says, guarantee by guarantee (docs/guarantees.md), whether
// it held, broke or was not put to the test.
//
// It reads recorded data only, in one pass, with memory for the nodes and sessions of a run and not for its length, and
// imports nothing of the library that it judges: a saved run can be judged again by anybody, with the same result.
//
// The words that its sources use:
//
//	allowance         how far apart two stamps of one fact may lie, or how long a step may take beyond its bound
//	calm              the phase after the storm, in which every fault is healed and the fleet settles
//	challenge         a fault or change that could move a lease from an owner that trusts it
//	change            what a guarantee judges one of: a takeover, a handover, a renewal, a poll
//	epoch             the life of Redis' data: a loss of data ends it, and a quarantine begins the next one
//	excused           of a change: not judged, because another fault could delay it beyond what judges anything
//	exercised         of a guarantee: changes that were judged
//	failover          another server of Redis takes over; a takeover is of a lease
//	fence             the number that grows with each grant of a lease (a fencing token)
//	injection         a fault of the plan that was really injected
//	loss              Redis comes back as another one, or without its data
//	promise           that a change comes by an instant, and what may move that instant
//	quarantine        a TTL after a loss in which nothing is granted
//	reach             the time in which an injection can delay what others do
//	rest              the fleet's steady state: balanced, with nothing on the move
//	settle            what the fleet takes to come to rest after a change
//	stall             a time in which the host did not run the harness
//	tap               the replication stream of Redis, which shows what Redis did
//	trust window      until when the owner of a term may act on it without an answer from Redis
package check

import (
	"errors"
	"fmt"
	"iter"

	"github.com/leasestorm/leasestorm/sim/history"
)

// Outcome is a verdict. The zero value is Unknown, and Unknown never passes.
type Outcome string

// The outcomes, as they stand in report.json.
const (
	Pass    Outcome = "pass"
	Fail    Outcome = "fail"
	Unknown Outcome = "unknown"
)

// Verdict is what the judge found about one guarantee.
type Verdict struct {
	ID      string   `json:"id"`      // of the guarantee: "G1" to "G14", "E1", …
	Spec    []string `json:"spec"`    // requirements of the specification that it stands for
	Verdict Outcome  `json:"verdict"` //
	Value   int64    `json:"value"`   // the worst that was seen, in Unit
	Limit   int64    `json:"limit"`   // what Value is held against, in Unit
	Unit    string   `json:"unit"`    //

	Exercised int    `json:"exercised"`           // changes that were judged
	Excused   int    `json:"excused"`             // changes that were not, because another fault could delay them
	Prolonged []int  `json:"prolonged,omitempty"` // of those judged: whose limit other faults moved, by at most ½, 1, 1½ and 2 TTL
	Detail    string `json:"detail"`              // what happened, for a reader who knows nothing of the run

	Challenges []Challenge `json:"challenges,omitempty"` // G1, E1: what the owners of leases went through

	Kinds  []KindCount `json:"kinds,omitempty"`  // the same changes, by the kind of fault
	Times  []Times     `json:"times,omitempty"`  // measured, of what is bounded in time
	Breaks []Break     `json:"breaks,omitempty"` // as many as are listed one by one: Kinds counts all

	Loads []Load `json:"loads,omitempty"` // G14, E7, I7: what instances sent, by what they went through

	// Stalled is for how long, in ns, the host stalled where that bears on the verdict: a limit was widened by it, or it may have caused
	// what broke.
	Stalled int64 `json:"-"`

	// The break that Value tells of, else the first: its session, if any, when it began and was noticed, in ns, and the events around it.
	From     int64           `json:"-"`
	At       int64           `json:"-"`
	Session  string          `json:"-"`
	Evidence []history.Event `json:"-"`
}

// Stats counts what happened in a run, whoever's fault it was.
type Stats struct {
	Events   int64 // in the history
	Entries  int64 // in the nodes' logs, of those that G12 needs
	Polls    int64 // accepted by the target
	Rejected int64 // refused by the target for an older fence
	Acquires int64
	Renewals int64
	Losses   int64
	Releases int64
	LastT    int64 // ns: time of the last event
	Stalled  int64 // ns in which the host did not schedule the harness
}

// Result is the judgement of a run.
type Result struct {
	Verdicts []Verdict // one for each guarantee of the run's system, in order
	Stats    Stats
	Complete bool // the history reaches the run's end
}

// Verdict returns the verdict with that ID, and false if there is none.
func (r Result) Verdict(id string) (Verdict, bool) {
	for _, v := range r.Verdicts {
		if v.ID == id {
			return v, true
		}
	}
	return Verdict{}, false
}

// ErrUnordered is the condition of a history whose events are not in order of time.
var ErrUnordered = errors.New("check: history is not in order of time")

// checker judges one guarantee. The world calls its hooks in the order of the history, once it is up to date. hooks has empty ones.
type checker interface {
	event(e *history.Event)     // each event; e is valid until the hook returns
	belief(t *term, on bool)    // an instance begins or ceases to trust its term
	began(t *term)              // a new term
	ended(t *term, how ending)  // a term is over
	injected(inj *injection)    // a fault of the plan is injected
	healed(inj *injection)      // it is healed
	finish()                    // the history is at its end
	verdict() Verdict           //
	aside(e *history.Event)     // an event of a server that is not the master which the sentinels know
	attach(w *world, v Verdict) // before everything else: where to look, and the guarantee's constants
}

// Judge reads the events, which must be in order of T, once, and returns a verdict for each guarantee of the run's system.
// logs may be nil: what the nodes logged is unknown then. They are looked at when the events are at their end.
//
// An error of the sequence (a file that is cut off) or a history out of order ends the reading: the result then covers
// what was read, nothing in it passes that a complete history could still break, and the error is returned beside it.
func Judge(p Params, events iter.Seq2[history.Event, error], logs *Logs) (Result, error) {
	return judging(p, logs).judge(events, logs)
}

func judging(p Params, logs *Logs) *world {
	w, s := newWorld(p), systemOf(p.System)
	w.checkers = s.checkers(logs)
	for i, c := range w.checkers {
		c.attach(w, s.guarantees[i].Verdict)
	}
	return w
}

func (w *world) judge(events iter.Seq2[history.Event, error], logs *Logs) (Result, error) {
	err := w.read(events)
	w.finish(err)
	r := Result{Stats: w.stats, Complete: w.complete && err == nil}
	for _, c := range w.checkers {
		r.Verdicts = append(r.Verdicts, c.verdict())
	}
	r.limited(w.Params)
	if logs != nil {
		r.Stats.Entries = logs.Entries()
		if err == nil {
			err = logs.err
		}
	}
	if !r.Complete {
		r.incomplete(w)
	}
	return r, err
}

func (w *world) read(events iter.Seq2[history.Event, error]) error {
	var e history.Event // one for all: the checkers keep none
	for next, err := range events {
		if err != nil {
			return err
		}
		e = next
		if e.T < w.now { // at first the run's begin: times count from there
			return fmt.Errorf("%w: event %d (%s) is of %s, the one before it of %s", ErrUnordered, w.stats.Events+1,
				e.Kind, clock(e.T), clock(w.now))
		}
		w.take(&e)
	}
	return nil
}

// incomplete turns what passes into unknown: the missing part could have broken it. What broke stays broken.
func (r *Result) incomplete(w *world) {
	why := "the history has no end"
	switch {
	case w.fell != "":
		why = w.fell
	case w.Interrupted:
		why = "the run was interrupted"
	}
	for i := range r.Verdicts {
		if v := &r.Verdicts[i]; v.Verdict == Pass {
			v.Verdict = Unknown
			v.Detail = "held as far as recorded, but " + why + "; " + v.Detail
		}
	}
}
