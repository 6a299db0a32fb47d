package virtual

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/foreign"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

func (s *strike) zone() int32 { return s.number + 1 }

// lasts returns the duration of a fault in ns, 0 if it is instant.
func (w *world) lasts(f fault.Fault) int64 {
	switch {
	case f.Kind == fault.CheckSend:
		return int64(2 * w.cfg.TTL)
	case f.Kind.Has(fault.Stops): // the clean stop decides when the next process starts
		return 0
	}
	return int64(f.Lasts())
}

func (w *world) calm() int64 { return int64(w.cfg.Start + w.cfg.Storm) }

// trusts mirrors the library's IsOwned.
func (n *node) trusts(t *term, at int64) bool {
	return t.gen != 0 && t.belief.Holds(n.clock.Now(at))
}

type plainProgram struct{}

func (plainProgram) asks(*world, *node, *core.Op)                   {}
func (plainProgram) told(*world, *node, *core.Tell)                 {}
func (plainProgram) replied(*world, *node, *foreign.Reply)          {}
func (plainProgram) answered(*world, *node, *core.Op, *core.Answer) {}
func (plainProgram) heard(*world, *node, string)                    {}
func (plainProgram) leases() bool                                   { return true }
func (plainProgram) drained(*world, *node) bool                     { return false }
func (plainProgram) died(*world, *node)                             {}

func (w *world) application() {
	w.q.Push(loop.Event{At: w.t + upTo(w.load, int64(50*time.Millisecond)), Kind: evSessionsBack})
}

func cutText(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s[:min(len(s), 200)]
}

func (w *world) say(n *node, k history.Kind, id string, fence int64, why string) {
	w.emit(history.Event{Kind: k, Node: n.name, Instance: n.instance, Session: id, Fence: fence, Reason: why})
}

// Each concern has its own random stream, so a change in one does not alter the draws of the others.
const (
	streamNet   = 0x6e6574
	streamLoad  = 0x6c6f6164
	streamSetup = 0x7365747570
	streamFault = 0x6661756c74
)

const (
	phaseStart = iota
	phaseStorm
	phaseCalm
	phaseEnd
)

var phaseNames = [...]string{phaseStart: "start", phaseStorm: "storm", phaseCalm: "calm", phaseEnd: "end"}

// world is the state of a run. One loop drives it; nothing in it is safe for concurrent use.
type world struct {
	cfg  Config
	t    int64 // true time, ns
	q    loop.Queue
	net  *rand.Rand
	load *rand.Rand
	pick *rand.Rand // for targets of faults
	sink func(history.Event)

	server    *server    // the only server, or the sentinels' master
	servers   []*server  // by number
	sentinels *sentinels // nil: a single server
	nodes     []*node    // slot i is nodes[i-1]
	placement placement  // shared by all cores

	sess    []session // by creation
	sessIdx map[string]int32
	timings policy.Polls
	polls   pollTable
	arrived int64 // number of polls that reached the target

	messages []*message
	free     []int32  // numbers of unused messages
	notices  []notice // by number
	spare    []int32  // numbers of unused notices
	calls    []func() // by number
	vacant   []int32  // numbers of unused calls
	routines []*routine
	idle     []*coroutine // without a routine
	current  *routine     // the running routine
	intents  *intentWorld
	pids     int64
	gens     uint32 // last generation of a term or poll

	plan   []strike
	edges  *edges // nil: events are not moved to edges
	phase  int
	events uint64
	entry  LogEntry // the entry being logged
	out    Outcome
}

// session is the state of a session at the application, the target and the oracle.
type session struct {
	id       string
	fence    int64         // highest that the target accepted
	slow     time.Duration // minimum serving time of the target
	hang     int
	believed []believer
	granted  int64 // highest fence granted to an instance
	excused  int64 // true time until which a deleted key excuses overlaps
	paused   int
	gone     bool
	heedless bool // its polls ignore their context
}

type edges struct {
	r    *rand.Rand
	near []int64 // candidate instants, reused
}

// fall is the reason why a process must end. The zero value is none.
type fall struct {
	hang  bool // it looped instead of panicking
	why   string
	stack string
}

type spin struct {
	since        int64
	ticks, calls int
}

type strike struct {
	fault.Interval
	number  int32 // in world.plan
	active  bool
	node    int32  // -1: none
	session int32  // -1: none
	gen     uint32 // generation of the struck process
	lead    int    // index of the fault whose node it strikes (fault.Same)
	on      bool   // flapping: the link is cut now
	narrow  narrow // bandwidth
	was     int64  // clock drift before the fault
	copy    *redis.Data
	dump    *dump
	server  *server // struck server, of faults of Redis
	shard   *shard  // struck shard, of faults of a cluster
	moved   [2]bool // whether its beginning and its end were moved to an edge
}

// message is an op and its answer. It is pooled; refs counts the events and lists that name it.
type message struct {
	op       core.Op
	ans      core.Answer
	cmd      *foreign.Command         // plain command of the node's program, instead of op
	reply    redis.Reply              // to cmd
	done     func(redis.Reply, error) // called with reply instead of the program; error: no answer
	number   int32                    // in world.messages
	node     int32
	gen      uint32 // generation of the sending process
	run      uint32 // generation of the receiving server
	to       int32
	refs     int32
	deadline int64 // true time
	armed    bool  // its timeout is scheduled
	told     bool  // the process has got an answer or a timeout
	noReply  bool  // its connection is gone: no answer can come
	lost     bool  // the request was lost
	torn     bool  // a discovery whose first half has been read
	since    int64 // true time of that read
}

type notice struct {
	core.Notice
	text string // message that does not concern leases
	refs int32  // pending deliveries
}

// link is the network between a machine and Redis. It has counters, because faults may overlap.
type link struct {
	cut       int
	holdOut   int           // requests are held back
	holdIn    int           // answers and notices are held back
	extra     time.Duration // latency, one way
	jitter    time.Duration
	narrow    []narrow // bandwidth limits in force
	fragments int
	double    int
	reorder   time.Duration

	heldOut  []loop.Event
	heldIn   []loop.Event
	flight   []*message // sent, neither answered nor given up
	noticeAt int64      // arrival of the last notice; notices of a subscription arrive in order
	to       int32      // server of its connections
	zone     int32      // zone of the servers that it reaches
	anywhere bool       // it reaches all zones
	told     *server    // master that the process last learned; nil: none
	astray   bool       // in history, it does not know or cannot reach the sentinels' master
	hears    bool       // subscribed
	trying   bool       // an attempt to subscribe is pending
	sub      uint32     // counts subscriptions
	sent     int64      // commands in this bucket (history.Commands)
}

type narrow struct {
	kbps  int64 // kilobytes a second
	until int64
}

// node is a slot: a machine with its clocks and link, and its process, if one runs.
type node struct {
	slot  int // from 1
	name  string
	clock loop.Clock
	link  link

	// The process.
	gen      uint32 // generation of the process
	alive    bool
	draining bool
	frozen   int // number of faults that freeze it
	instance string
	pid      int64
	machine  Machine
	program  program // nil: it has only leases and polls
	tickAt   int64   // true time of the pending tick; 0: none
	inbox    []loop.Event
	fall     fall
	spin     spin
	todo     []core.Event // for the core, after the current step
	working  bool         // a step is being carried out
	routines []*routine
	spawned  bool // a process has run in this slot

	terms   []term
	vacant  []int32
	held    map[string]int32 // lease → index in terms; never ranged over
	left    []leftover
	pauses  []int32       // check-send faults that wait for the next poll
	again   time.Duration // delay of the restart after a clean stop
	restart bool
	witness int32 // the process is thawed once this session has another owner; -1: none
	paused  int32 // check-send fault that froze it
}

type term struct {
	gen     uint32 // 0: vacant
	session int32
	fence   int64
	until   core.Time // end of the trust window
	belief  policy.Belief
	polls   policy.Poller
	poll    int32 // running poll; -1: none
}

// believer is one term, from the instance's acquired to its lost, released or death.
type believer struct {
	node, term int32
	gen        uint32
}

// poll is a poll from its start in a process to the end of its request.
type poll struct {
	gen      uint32 // 0: vacant
	node     int32
	term     int32
	termGen  uint32
	session  int32
	fence    int64
	id       string // of the session
	instance string
	ends     int64 // true time of its timeout; 0: set at the send
	arrival  int64 // number at the target; 0: not arrived
	accepted bool
	refused  bool // the target refused its fence
	ended    bool
	over     bool // the process has given it up or ended
}

type pollTable struct {
	polls  []poll
	vacant []int32
}

// leftover is a poll that outlasts its term. The next term of its session in this process takes it over.
type leftover struct {
	session int32
	poll    int32
	polls   policy.Poller
}

// program runs in a process beside the leases of its core and their polls. Polling alone needs none.
type program interface {
	start(w *world, n *node)
	// next returns the time of the next tick on the node's monotonic clock, 0 for never.
	next() core.Time
	tick(w *world, n *node)
	// asks is called before a core's op is sent.
	asks(w *world, n *node, op *core.Op)
	told(w *world, n *node, t *core.Tell)
	// replied receives the result of the program's own command.
	replied(w *world, n *node, r *foreign.Reply)
	answered(w *world, n *node, op *core.Op, a *core.Answer)
	// heard receives a message that does not concern leases. "" means that the process has subscribed and may have missed some.
	heard(w *world, n *node, text string)
	leases() bool
	// drained is called after the core has drained. False ends the process.
	drained(w *world, n *node) bool
	died(w *world, n *node)
	// drain begins a stop. False makes the shell drain the core.
	drain(w *world, n *node) bool
}

// routine runs blocking code of a process or a client in virtual time. wake returns when the routine parks again.
type routine struct {
	w       *world
	n       *node
	all     *[]*routine // list of its process or of the world
	f       func(*routine)
	on      *coroutine
	running bool
	dead    bool // its process or the run is over, so every wait fails at once
}

// coroutine runs one routine after another. Most are short and can share a stack that has grown.
type coroutine struct {
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	runs   *routine // nil: idle
}

// latch is a condition that one routine of a process waits for. A set before the wait counts once.
type latch struct {
	on    bool
	who   *routine
	waits int
}

// slot returns an unused index of all, and extends all if necessary.
func slot[T any](all *[]T, vacant *[]int32) int32 {
	if k := len(*vacant); k > 0 {
		i := (*vacant)[k-1]
		*vacant = (*vacant)[:k-1]
		return i
	}
	*all = append(*all, *new(T))
	return int32(len(*all) - 1)
}

// after calls f after d, whether or not processes end.
func (w *world) after(d int64, f func()) {
	w.q.Push(loop.Event{At: w.t + max(0, d), Kind: evCall, Arg: w.keep(f)})
}

// inProcess calls f in a process after d, unless the process has ended. A frozen process calls f when thawed.
func (w *world) inProcess(n *node, d int64, f func()) {
	w.q.Push(loop.Event{At: w.t + max(0, d), Kind: evProcess, Node: int32(n.slot - 1), Arg: w.keep(f), Gen: n.gen})
}

func (w *world) keep(f func()) int32 {
	i := slot(&w.calls, &w.vacant)
	w.calls[i] = f
	return i
}

func (w *world) take(i int32) func() {
	f := w.calls[i]
	w.calls[i] = nil
	w.vacant = append(w.vacant, i)
	return f
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// epochNs is the wall time at true time zero, 2024-01-01. Fences are microseconds of Redis' clock.
const epochNs = int64(1_704_067_200) * int64(time.Second)

// spread draws from [-d, d].
func spread(r *rand.Rand, d int64) int64 {
	if d <= 0 {
		return 0
	}
	return r.Int64N(2*d+1) - d
}

// upTo draws from [0, d), 0 if d is not positive.
func upTo(r *rand.Rand, d int64) int64 {
	if d <= 0 {
		return 0
	}
	return r.Int64N(d)
}

const million = int64(1_000_000)

// chance returns true with a probability of ppm per million.
func chance(r *rand.Rand, ppm int64) bool { return ppm > 0 && r.Int64N(million) < ppm }

func (w *world) emit(e history.Event) {
	if w.sink != nil {
		e.T = w.t
		w.sink(e)
	}
}

func (w *world) note(format string, args ...any) {
	w.emit(history.Event{Kind: history.Note, Reason: fmt.Sprintf(format, args...)})
}
