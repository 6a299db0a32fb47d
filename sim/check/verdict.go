package check

import (
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/measure"
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

	// Stalled is the duration, in ns, of the host's stall that affects the verdict: the stall extended a limit, or may have caused
	// the breaks.
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

// Break is one break of a guarantee. Times are those of the history.
type Break struct {
	From     int64      `json:"fromNs"`               // start; a delay counts from here
	To       int64      `json:"toNs"`                 // end, or detection
	Deadline int64      `json:"deadlineNs,omitempty"` // deadline of the late change, or end of the first owner's lease; 0: unknown
	Session  string     `json:"session,omitempty"`    // session of the lease; "": none
	Owners   []Owner    `json:"owners,omitempty"`     // instances that had a part in it, in the order of their terms
	Fault    *Suspected `json:"fault,omitempty"`      // its cause, as far as it is known
	First    bool       `json:"first,omitempty"`      // it began before all others
	Text     string     `json:"text,omitempty"`
}

// Owner is an instance and the fence under which it had the lease.
type Owner struct {
	Instance string `json:"instance"`
	Fence    int64  `json:"fence,omitempty"`
}

// Suspected is a fault of the plan.
type Suspected struct {
	N    int64  `json:"n"`
	Kind string `json:"kind"`
}

// Around says which events explain a break: the last events of its lease, and events that concern all leases.
type Around struct {
	Session string         // "": no lease broke
	Seen    int32          // number of events before those that followed the break
	Since   int64          // ns: from then on, events that concern all leases count
	Fault   *history.Event // start of the fault that caused it; nil: unknown
}

// Load is the number of commands that instances sent in one state. Sent and Limit belong to the window that came closest to its
// limit.
type Load struct {
	State   string `json:"state"`
	Windows int    `json:"windows"`
	Most    int64  `json:"most"`
	Sent    int64  `json:"sent"`  // commands in the window that came closest to its limit
	Limit   int64  `json:"limit"` // limit of that window
}
