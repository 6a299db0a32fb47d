package page

import (
	"encoding/json"
	"strconv"

	"github.com/leasestorm/leasestorm/sim/check"
)

// model is what the page is drawn from, as JSON. Times are whole milliseconds of the history's clock, those of Events microseconds.
// All text in it is printable: what a node said was escaped on its way in.
type model struct {
	Head       head        `json:"head"`
	Guarantees []guarantee `json:"guarantees"`
	Breaks     []drawing   `json:"breaks"` // the one that the page opens with first
	Nodes      []node      `json:"nodes"`
	Sessions   []session   `json:"sessions"`
	Part       [2]int      `json:"part"` // of the names of sessions that are UUIDs, the letters that tell them apart: from, to
	Terms      terms       `json:"terms"`
	Doubts     doubts      `json:"doubts"`
	Faults     []spell     `json:"faults"`
	Stalls     []spell     `json:"stalls"` // of the host, with the times in which Redis' stream was read late
	Marks      []mark      `json:"marks"`
	Events     events      `json:"events"`
	Load       load        `json:"load"`
	Plan       []planned   `json:"plan"`
	Config     [][2]string `json:"config"`
	Notes      []string    `json:"notes"` // what the harness and the nodes said beside, the first of them
	Left       []string    `json:"left"`  // what was left out or summed up, a sentence each
	Strings    []string    `json:"strings"`
	Kinds      []string    `json:"kinds"` // names of the events' kinds
	Calm       int64       `json:"calm"`  // 0: it never came
	End        int64       `json:"end"`   // of what was read
	Planned    int64       `json:"planned"`
	TTL        int64       `json:"ttl"`
	Parting    *Parting    `json:"parting,omitempty"`
	Smaller    *model      `json:"smaller,omitempty"` // the smallest run that breaks the same
}

// head is the first section. What plain.html alone shows is no data of the script, as in guarantee.
type head struct {
	Verdict  check.Outcome `json:"verdict"`
	Facts    []string      `json:"-"`
	Sentence []part        `json:"-"`
	Sub      string        `json:"-"`
	Commands [][2]string   `json:"-"`      // what it is for, and the command
	Muted    string        `json:"-"`      // why a command is not offered
	Banner   string        `json:"banner"` // what is missing of the run
	Title    string        `json:"-"`
}

// part is a piece of the sentence; As is "a" or "b" for a guilty node, "red" for the time, "code" for a name.
type part struct {
	Text string `json:"t"`
	As   string `json:"as,omitempty"`
}

type guarantee struct {
	ID        string            `json:"id"`
	Promise   string            `json:"promise"`
	Decides   bool              `json:"-"`
	Verdict   check.Outcome     `json:"verdict"`
	Value     int64             `json:"value"`
	Shown     string            `json:"-"` // value and limit as a table shows them
	Bound     string            `json:"-"`
	Limit     int64             `json:"limit"`
	Unit      string            `json:"unit"`
	Exercised int               `json:"exercised"`
	Excused   int               `json:"-"`
	Detail    string            `json:"detail"`
	Kinds     []check.KindCount `json:"-"`
	Times     []times           `json:"times,omitempty"`
	Broken    uint64            `json:"broken,omitempty"`
}

// times are measured times as dots: At in milliseconds, and how many.
type times struct {
	Of   string       `json:"of"`
	N    uint64       `json:"n"`
	P50  float64      `json:"p50"`
	P99  float64      `json:"p99"`
	Max  float64      `json:"max"`
	Dots [][2]float64 `json:"dots"`
}

// drawing is a break that can be drawn.
type drawing struct {
	Guarantee string  `json:"id"`
	Session   int     `json:"session"` // -1: of none
	From      int64   `json:"from"`    // µs, as the others
	To        int64   `json:"to"`
	Deadline  int64   `json:"deadline"`
	Missed    string  `json:"missed"` // what the deadline was
	Owners    []owner `json:"owners"`
	Steps     []step  `json:"steps"`
	Fault     int     `json:"fault"` // index in the plan, -1: not known
	First     bool    `json:"first"`
	Watched   bool    `json:"watched"` // its events are there
	Lead      string  `json:"lead"`
	Sentence  []part  `json:"sentence"`

	Leases []int `json:"leases,omitempty"` // the sessions whose leases it ran under, where it has none itself

	Said  string   `json:"said,omitempty"`  // the judge's text, where there is no drawing of a lease
	Lines []string `json:"lines,omitempty"` // and the events that it shows of the guarantee, as simulate check prints them
}

type owner struct {
	Node  int    `json:"node"` // -1: not known
	Name  string `json:"name"`
	Fence exact  `json:"fence"`
}

type step struct {
	At   int64  `json:"at"` // µs
	Text string `json:"text"`
}

type node struct {
	Name  string     `json:"name"`
	Lives [][2]int64 `json:"lives"`
}

type session struct {
	Name  string     `json:"name"`
	There [][2]int64 `json:"there"` // when it existed and was not paused
}

// terms are columns: each term's session, node, begin, length, fence and how it ended (howNames).
type terms struct {
	Session []int32  `json:"s"`
	Node    []int32  `json:"n"`
	From    []int64  `json:"t"`
	For     []int64  `json:"d"`
	Fence   []exact  `json:"f"`
	How     []uint16 `json:"h"`
	Hows    []string `json:"hows"`
}

// doubts are columns: the term, and from when to when its node doubted it.
type doubts struct {
	Term []int32 `json:"i"`
	From []int64 `json:"t"`
	For  []int64 `json:"d"`
}

// spell is a fault that struck.
type spell struct {
	N       int64  `json:"n"`
	Kind    string `json:"kind"`
	Node    int    `json:"node"`
	Session int    `json:"session"`
	From    int64  `json:"from"`
	To      int64  `json:"to"` // From: an instant
}

// mark is a moment of Redis or of the harness.
type mark struct {
	At   int64  `json:"at"`
	Kind string `json:"kind"`
	Why  string `json:"why,omitempty"`
}

// events are columns: all that happened to the sessions of the breaks that can be drawn, near those breaks.
type events struct {
	At       []int64  `json:"t"`
	Kind     []uint16 `json:"k"`
	Node     []int32  `json:"n"`
	Session  []int32  `json:"s"`
	Instance []int32  `json:"i"`
	Fence    []exact  `json:"f"`
	Until    []int64  `json:"u"`
	Number   []exact  `json:"m"`
	Reason   []int32  `json:"r"`
}

// load is how many commands each node sent in each bucket.
type load struct {
	Width int64     `json:"width"` // ms
	Sent  [][]int64 `json:"sent"`  // by node
}

type planned struct {
	N      int    `json:"n"`
	At     int64  `json:"at"`
	Kind   string `json:"kind"`
	Target string `json:"target"`
	For    int64  `json:"for"`
	Lone   bool   `json:"lone"`
}

// exact is a number that JavaScript may not be able to hold; such a one is written as text.
type exact int64

const exactMax = 1 << 53

// MarshalJSON writes a number where that is exact, else a string.
func (n exact) MarshalJSON() ([]byte, error) {
	if n > -exactMax && n < exactMax {
		return strconv.AppendInt(nil, int64(n), 10), nil
	}
	return json.Marshal(strconv.FormatInt(int64(n), 10))
}
