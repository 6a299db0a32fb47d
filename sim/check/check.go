// Package check is the judge: it reads the history of a run and says, guarantee by guarantee (docs/guarantees.md), whether
// it held, broke or was not put to the test.
//
// It reads recorded data only, in one pass, with memory for the nodes and sessions of a run and not for its length, and
// imports nothing of the library that it judges: a saved run can be judged again by anybody, with the same result.
package check

import (
	"errors"
	"fmt"
	"iter"

	"github.com/leasestorm/leasestorm/sim/history"
)

// Outcome is a verdict in one word. The zero value is Unknown, and Unknown never passes.
type Outcome string

// The outcomes, as they stand in report.json.
const (
	Pass    Outcome = "pass"
	Fail    Outcome = "fail"
	Unknown Outcome = "unknown"
)

// Verdict is what the judge found about one guarantee.
type Verdict struct {
	ID      string   `json:"id"`      // "G1" to "G13"
	Spec    []string `json:"spec"`    // requirements of the specification that it stands for
	Verdict Outcome  `json:"verdict"` //
	Value   int64    `json:"value"`   // the worst that was seen, in Unit
	Limit   int64    `json:"limit"`   // what Value is held against, in Unit
	Unit    string   `json:"unit"`    //

	Exercised int    `json:"exercised"` // changes that were judged
	Excused   int    `json:"excused"`   // changes that were not, because another fault could delay them
	Detail    string `json:"detail"`    // what happened, for a reader who knows nothing of the run

	// Evidence is the first break in the history's own words: the events around it, in order of T.
	Evidence []history.Event `json:"-"`
}

// Stats counts what happened in a run, whoever's fault it was.
type Stats struct {
	Events   int64 // in the history
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
	Verdicts []Verdict // G1 to G13, in order
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

// checker judges one guarantee. Its hooks are called in the order of the history, after the world has been brought up to
// date; those that a guarantee does not need are inherited from hooks.
type checker interface {
	event(e *history.Event)     // each event
	belief(t *term, on bool)    // an instance begins or ceases to trust its term
	began(t *term)              // a new term
	ended(t *term, how ending)  // a term is over
	struck(s *strike)           // a fault of the plan strikes
	healed(s *strike)           // it is healed
	finish()                    // the history is at its end
	verdict() Verdict           //
	attach(w *world, v Verdict) // before everything else: where to look, and the guarantee's constants
}

// Judge reads the events, which must be in order of T, once, and returns a verdict for each guarantee. logs may be nil: what
// the nodes logged is unknown then.
//
// An error of the sequence (a file that is cut off) or a history out of order ends the reading: the result then covers
// what was read, nothing in it passes that a complete history could still break, and the error is returned beside it.
func Judge(p Params, events iter.Seq2[history.Event, error], logs Logs) (Result, error) {
	w := newWorld(p)
	told := &g12{logs: logs}
	w.checkers = []checker{
		&g1{}, &g2{}, &g3{}, &g4{}, &g5{}, &g6{}, &g7{}, &g8{}, &g9{}, &g10{}, &g11{}, told, &g13{},
	}
	for i, c := range w.checkers {
		c.attach(w, guarantees[i])
	}
	err := w.read(events)
	w.finish(err)
	r := Result{Stats: w.stats, Complete: w.complete && err == nil}
	for _, c := range w.checkers {
		r.Verdicts = append(r.Verdicts, c.verdict())
	}
	if err == nil {
		err = told.err
	}
	if !r.Complete {
		r.incomplete(p)
	}
	return r, err
}

func (w *world) read(events iter.Seq2[history.Event, error]) error {
	for e, err := range events {
		if err != nil {
			return err
		}
		if e.T < w.now && w.stats.Events > 0 {
			return fmt.Errorf("%w: event %d (%s) is of %s, the one before it of %s", ErrUnordered, w.stats.Events+1,
				e.Kind, clock(e.T), clock(w.now))
		}
		w.take(&e)
	}
	return nil
}

// incomplete turns what passes into unknown: the missing part could have broken it. What broke stays broken.
func (r *Result) incomplete(p Params) {
	why := "the history has no end"
	if p.Interrupted {
		why = "the run was interrupted"
	}
	for i := range r.Verdicts {
		if v := &r.Verdicts[i]; v.Verdict == Pass {
			v.Verdict = Unknown
			v.Detail = "held as far as recorded, but " + why + "; " + v.Detail
		}
	}
}

// guarantees are the constants of each verdict. docs/guarantees.md numbers them.
var guarantees = []Verdict{
	{ID: "G1", Spec: []string{"SC-001", "FR-009", "FR-010", "FR-012"}, Unit: "ms of overlap"},
	{ID: "G2", Spec: []string{"SC-001", "US3"}, Unit: "duplicate polls"},
	{ID: "G3", Spec: []string{}, Unit: "fences that fell"},
	{ID: "G4", Spec: []string{"FR-012", "FR-016"}, Unit: "polls without trust"},
	{ID: "G5", Spec: []string{"SC-002", "FR-017", "US2"}, Unit: "ms"},
	{ID: "G6", Spec: []string{"SC-004", "US4"}, Limit: 1, Unit: "leases off ideal"},
	{ID: "G7", Spec: []string{"US4-2"}, Unit: "needless moves"},
	{ID: "G8", Spec: []string{"SC-006"}, Unit: "ms unpolled"},
	{ID: "G9", Spec: []string{"SC-005"}, Unit: "ms"},
	{ID: "G10", Spec: []string{"FR-001", "FR-002", "FR-003"}, Unit: "foreign changes"},
	{ID: "G11", Spec: []string{"SC-003"}, Limit: 10, Unit: "instances at once"},
	{ID: "G12", Spec: []string{"FR-019", "FR-020", "FR-021", "FR-022"}, Unit: "entries missing"},
	{ID: "G13", Spec: []string{"US1-3"}, Limit: failoverAllowance.Milliseconds(), Unit: "ms"},
}

// IDs returns the IDs of all guarantees in order.
func IDs() []string {
	ids := make([]string, len(guarantees))
	for i, v := range guarantees {
		ids[i] = v.ID
	}
	return ids
}
