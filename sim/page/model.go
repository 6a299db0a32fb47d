package page

import (
	"encoding/json"
	"strconv"

	"github.com/leasestorm/leasestorm/sim/check"
)

// model is the data of the page, as JSON. Times are whole milliseconds of the history's clock; those of Events and Breaks are
// microseconds. All text is printable, because the collector escapes messages of nodes.
type model struct {
	Head       head        `json:"head"`
	Guarantees []guarantee `json:"guarantees"`
	Breaks     []drawing   `json:"breaks"` // the first one opens the page
	Nodes      []node      `json:"nodes"`
	Sessions   []session   `json:"sessions"`
	Part       [2]int      `json:"part"` // range of letters, from and to, that distinguishes sessions with UUID names
	Terms      terms       `json:"terms"`
	Doubts     doubts      `json:"doubts"`
	Faults     []spell     `json:"faults"`
	Stalls     []spell     `json:"stalls"` // stalls of the host, and late reads of Redis' stream
	Marks      []mark      `json:"marks"`
	Events     events      `json:"events"`
	Load       load        `json:"load"`
	Plan       []planned   `json:"plan"`
	Config     [][2]string `json:"config"`
	Notes      []string    `json:"notes"` // first remarks of the harness and the nodes
	Left       []string    `json:"left"`  // omitted or summarised parts, one sentence each
	Strings    []string    `json:"strings"`
	Kinds      []string    `json:"kinds"` // names of event kinds
	Calm       int64       `json:"calm"`  // 0: never
	End        int64       `json:"end"`   // end of the history
	Planned    int64       `json:"planned"`
	TTL        int64       `json:"ttl"`
	Parting    *Parting    `json:"parting,omitempty"`
	Smaller    *model      `json:"smaller,omitempty"` // the smallest run with the same break
}

// head is the first section. The script's data omits fields that only plain.html shows, here and in guarantee.
type head struct {
	Verdict  check.Outcome `json:"verdict"`
	Facts    []string      `json:"-"`
	Sentence []part        `json:"-"`
	Sub      string        `json:"-"`
	Commands [][2]string   `json:"-"`      // purpose and command
	Muted    string        `json:"-"`      // why a command is not offered
	Banner   string        `json:"banner"` // what the run lacks
	Title    string        `json:"-"`
}

// part is a piece of the sentence. As is "a" or "b" for an accused node, "red" for a time, "code" for a name.
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
	Shown     string            `json:"-"` // value and limit, as a table shows them
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

// times holds measured times as dots: milliseconds and count.
type times struct {
	Of   string       `json:"of"`
	N    uint64       `json:"n"`
	P50  float64      `json:"p50"`
	P99  float64      `json:"p99"`
	Max  float64      `json:"max"`
	Dots [][2]float64 `json:"dots"`
}

type drawing struct {
	Guarantee string  `json:"id"`
	Session   int     `json:"session"` // -1: none
	From      int64   `json:"from"`    // µs, like To and Deadline
	To        int64   `json:"to"`
	Deadline  int64   `json:"deadline"`
	Missed    string  `json:"missed"` // meaning of the deadline
	Owners    []owner `json:"owners"`
	Steps     []step  `json:"steps"`
	Fault     int     `json:"fault"` // index in the plan; -1: unknown
	First     bool    `json:"first"`
	Watched   bool    `json:"watched"` // the history has events of its session
	Lead      string  `json:"lead"`
	Sentence  []part  `json:"sentence"`

	Leases []int `json:"leases,omitempty"` // sessions whose leases it ran under, if it has no lease itself

	Said  string   `json:"said,omitempty"`  // judge's text, if no lease is drawn
	Lines []string `json:"lines,omitempty"` // events that the judge shows, as simulate check prints them
}

type owner struct {
	Node  int    `json:"node"` // -1: unknown
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
	There [][2]int64 `json:"there"` // times in which it existed and was not paused
}

// terms holds the columns of all terms: session, node, start, length, fence and ending (howNames).
type terms struct {
	Session []int32  `json:"s"`
	Node    []int32  `json:"n"`
	From    []int64  `json:"t"`
	For     []int64  `json:"d"`
	Fence   []exact  `json:"f"`
	How     []uint16 `json:"h"`
	Hows    []string `json:"hows"`
}

type doubts struct {
	Term []int32 `json:"i"`
	From []int64 `json:"t"`
	For  []int64 `json:"d"`
}

type spell struct {
	N       int64  `json:"n"`
	Kind    string `json:"kind"`
	Node    int    `json:"node"`
	Session int    `json:"session"`
	From    int64  `json:"from"`
	To      int64  `json:"to"` // equal to From for an instant
}

type mark struct {
	At   int64  `json:"at"`
	Kind string `json:"kind"`
	Why  string `json:"why,omitempty"`
}

// events holds the columns of the events near drawn breaks, of the same sessions.
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

type exact int64

const exactMax = 1 << 53

// MarshalJSON writes a number if JavaScript can represent it, else a string.
func (n exact) MarshalJSON() ([]byte, error) {
	if n > -exactMax && n < exactMax {
		return strconv.AppendInt(nil, int64(n), 10), nil
	}
	return json.Marshal(strconv.FormatInt(int64(n), 10))
}

// Parting is the point at which two runs begin to differ. Events are lines, as simulate check prints them.
type Parting struct {
	With   string   `json:"with"`  // the other run
	Parts  bool     `json:"parts"` // false: the runs are equal
	Same   int      `json:"same"`  // number of equal events
	At     int64    `json:"at"`    // ns: this run's first event that differs, or else its last event
	Plans  []string `json:"plans"` // faults that only one run has
	Before []string `json:"before"`
	Here   []string `json:"here"`
	There  []string `json:"there"`
}
