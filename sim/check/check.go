// Package check is the judge. It reads the history of a run and returns a verdict for each guarantee (docs/guarantees.md): it held, it
// broke, or the run did not put it to the test.
//
// The judge uses recorded data only, and keeps all of it until the verdict. It imports nothing of the library that it judges, so anybody
// can judge a saved run again with the same result.
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
	"github.com/leasestorm/leasestorm/sim/measure"
	"github.com/leasestorm/leasestorm/sim/nodelogs"
)

// Outcome is a verdict. The zero value is Unknown, and Unknown never passes.
type Outcome string

// The outcomes, as report.json spells them.
const (
	Pass    Outcome = "pass"
	Fail    Outcome = "fail"
	Unknown Outcome = "unknown"
)

// Verdict is the judge's finding about one guarantee.
type Verdict struct {
	ID      string   `json:"id"`   // ID of the guarantee: "G1" to "G14", "E1", …
	Spec    []string `json:"spec"` // requirements of the specification that the guarantee answers
	Verdict Outcome  `json:"verdict"`
	Value   int64    `json:"value"` // worst measurement, in Unit
	Limit   int64    `json:"limit"` // limit of Value, in Unit
	Unit    string   `json:"unit"`

	Exercised int    `json:"exercised"`
	Excused   int    `json:"excused"`             // changes left unjudged, because another fault could delay them
	Prolonged []int  `json:"prolonged,omitempty"` // judged changes whose limit a fault moved, by at most ½, 1, 1½ and 2 TTL
	Detail    string `json:"detail"`              // what happened, for a reader who does not know the run

	Challenges []Challenge `json:"challenges,omitempty"` // G1, E1: faults and changes that the owners went through

	Kinds  []KindCount     `json:"kinds,omitempty"`  // the same counts, by kind of fault
	Times  []measure.Times `json:"times,omitempty"`  // measured times of changes that have a time limit
	Breaks []Break         `json:"breaks,omitempty"` // the listed breaks; Kinds counts all of them

	Loads []Load `json:"loads,omitempty"` // G14, E7, I7: commands of the instances, by their state

	// Stalled is the host's stall, in ns, that bears on the verdict: it widened a limit, or may have caused the breaks.
	Stalled int64 `json:"-"`

	At       int64           `json:"-"` // ns: when the largest break was noticed
	Around   Around          `json:"-"` // which events explain it
	Evidence []history.Event `json:"-"` // these events, by report.Explain
}

// Stats counts the events of a run, whatever caused them.
type Stats struct {
	Events   int64
	Entries  int64 // log entries of the nodes that G12 needs
	Polls    int64 // accepted by the target
	Rejected int64 // refused by the target for an older fence
	Acquires int64
	Renewals int64
	Losses   int64
	Releases int64
	LastT    int64 // ns: time of the last event
	Stalled  int64 // ns in which the host did not run the harness
}

// Result is the judgement of a run.
type Result struct {
	Verdicts []Verdict // one for each guarantee of the run's system, in order
	Stats    Stats
	Complete bool // whether the history reaches the run's end
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

// ErrUnordered reports a history whose events are not in order of time.
var ErrUnordered = errors.New("check: history is not in order of time")

// checker judges one guarantee. The world updates itself first, then calls the hooks in the order of the history. hooks has empty ones.
type checker interface {
	event(e *history.Event) // each event; e is valid until the hook returns
	began(t *term)
	ended(t *term, how ending)
	injected(inj *injection)
	healed(inj *injection)
	finish()
	verdict() Verdict
	aside(e *history.Event)     // an event of a server other than the master that the sentinels know
	attach(w *world, v Verdict) // called first, with the guarantee's constants
}

// Judge reads the events, which must be in order of T, and returns a verdict for each guarantee of the run's system. It reads logs after
// the last event. Without logs (nil), everything that needs them is unknown.
//
// An error of the sequence (a truncated file) or an event out of order ends the reading. Judge then returns that error and a result for
// the events before it. In that result, no guarantee passes that the missing part could have broken.
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
	r := Result{Stats: w.stats, Complete: w.complete && err == nil}
	for _, c := range w.checkers {
		v := c.verdict()
		switch {
		case !w.Judges(v.ID):
			v = Verdict{ID: v.ID, Spec: v.Spec, Limit: v.Limit, Unit: v.Unit, Verdict: Unknown, Detail: "not judged with real replicas yet"}
		case v.Verdict == Pass && !r.Complete: // the missing part could have broken it
			v.Verdict, v.Detail = Unknown, "held as far as recorded, but "+w.missing()+"; "+v.Detail
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

// missing tells why the history is incomplete.
func (w *world) missing() string {
	switch {
	case w.fell != "":
		return w.fell
	case w.Interrupted:
		return "the run was interrupted"
	}
	return "the history has no end"
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
