package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/process"
	"github.com/leasestorm/leasestorm/sim/real/proxy"
	"github.com/leasestorm/leasestorm/sim/real/stream"
	"github.com/leasestorm/leasestorm/sim/real/target"
	"github.com/leasestorm/leasestorm/sim/timing"
)

// ErrConfig: a Config is invalid; the message names the field.
var ErrConfig = errors.New("invalid run")

// Config describes a run. All durations are wall time. Nodes get the durations of the lease unchanged.
type Config struct {
	System   string // "polling" if empty, "election" or "intents"
	Replicas int    // replicas that nodes are configured with; replicated Redis only
	Nodes    int    // nodes started before the storm, at least 1, in slots node-1, node-2, …
	Sessions int    // sessions created before the first node starts; with intents: services, each with a client
	Tuners   int    // with intents: tuner slots that the workers share

	// Phase1 reports, with intents, whether the API in a slot (from 1) acquires leases itself; nil: never.
	Phase1 func(slot int) bool

	timing.Timings
	LongPolls bool // polls may outlast the trust window

	Storm time.Duration // duration of the storm, in which the plan's faults hit
	Calm  time.Duration // duration of the calm after it, in which the fleet must converge

	Plan    fault.Plan
	NodeCmd []string // argv of a node
	NodeEnv []string // additional KEY=VALUE of nodes, after those of docs/node-protocol.md

	Stores []Store // other services that each node reaches through a proxy; single Redis only

	NodeAlone  bool // a node starts no other process, so none is searched for when it stops
	NodeParent bool // a node starts processes of its own, which SIGTERM must not reach; false: NodeCmd may be a launcher

	Logs string // existing folder for <slot>.log, the nodes' standard error

	Seed uint64 // source of session IDs, delays and the harness's choices

	Speed float64 // divisor of the usual timings, to propose another; 0: unknown

	// Progress is called at most every 200 ms, from one goroutine. It may be nil.
	Progress func(Progress)

	// For tests; 0 selects the default of Run.
	readyWithin, grace, silentWithin time.Duration
}

// Progress is a snapshot of a run.
type Progress struct {
	Elapsed, Total              time.Duration // since the storm's start; storm and calm together
	Phase                       string        // "start", "storm", "calm" or "end"
	Alive, Nodes                int           // running processes; slots that have not left
	Polls, Rejected, Violations int64         // counted by the target; a violation: two instances of one session at once
	Fault                       string        // the latest active fault, "" if none
	Overload                    string        // why the host cannot carry the storm, "" if it can
}

// Outcome is the result of a run beside its history.
type Outcome struct {
	Tap           bool     // the history shows the grants of Redis
	Interrupted   bool     // the context ended before the calm did
	RedisCommands int64    // executed by Redis during the run, as far as INFO shows
	Late          int      // faults that hit more than 50 ms after their time
	Notes         []string // remarks for the reader
	Unsaved       error    // why the nodes' logs are incomplete; nil: they are complete
}

type run struct {
	cfg     Config
	system  *system
	redis   *Redis
	rec     *history.Recorder
	clock   *host.Clock
	target  *target.Target
	stream  *stream.Stream   // of the only server, or of the first master
	streams []*stream.Stream // one per server; the voter of a cluster, the last server, has none
	watch   watch
	work    *workload

	refusals refusals
	load     host.Load

	phase  atomic.Pointer[string]
	owners owners
	storm  atomic.Int64 // start of the storm, run clock; 0 before

	end    context.CancelCauseFunc
	ending chan struct{}  // closed when the calm is over
	tail   sync.WaitGroup // rescues, restarts and kills in the background

	making sync.Mutex
	shared
}

// shared is what the goroutines of a run share.
type shared struct {
	mu      sync.Mutex // guards all fields
	slots   map[string]*slot
	order   []string
	named   map[string][]*node // instance ID → nodes that reported it
	notes   []string
	late    int
	aborted error // why the harness cannot go on
	unsaved error
	active  []activeFault
	healed  int64          // end of the last fault of Redis, run clock
	faulted map[string]int // slot → number of faults that act on it
	struck  map[int]string // fault of an owner → slot that it hit
}

type activeFault struct {
	n    int
	text string
}

// Stream numbers of the random sources. They are fixed, so that a seed repeats a run's choices.
const (
	streamSessions = 0
	streamLines    = 100 // plus the number of slots created before
)

// finish stops the slot's process for good and waits until all its output is recorded.
func (s *slot) finish(grace time.Duration) {
	s.mu.Lock()
	s.left = true
	n := s.node
	if n != nil {
		n.asked = true
	}
	s.mu.Unlock()
	if n == nil {
		return
	}
	if process.Terminate(n, nothing, nothing, grace, nil) {
		s.run.notef("%s ignored SIGTERM for %v and was killed", s.name, grace)
	}
	<-n.done
}

func (r *run) addSlot(name string) (*slot, error) {
	r.making.Lock()
	defer r.making.Unlock()
	if s := r.slot(name); s != nil {
		return s, nil
	}
	s, err := r.newSlot(name, r.nextStream())
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots[name] = s
	r.order = append(r.order, name)
	return s, nil
}

func (r *run) nextStream() uint64 { return uint64(streamLines + len(r.slots)) }

func (r *shared) slot(name string) *slot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slots[name]
}

func (r *shared) allSlots() []*slot {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*slot, 0, len(r.order))
	for _, name := range r.order {
		out = append(out, r.slots[name])
	}
	return out
}

func (r *run) record(e history.Event) {
	e.T = r.clock.Now()
	r.rec.Add(e)
}

func (r *run) setPhase(name string) {
	r.phase.Store(&name)
	e := history.Event{Kind: history.Phase, Reason: name}
	if name != "start" {
		e.T = r.clock.Now()
	}
	r.rec.Add(e)
}

// notef records a note in the history and, up to notesMax, in the outcome.
func (r *run) notef(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.record(history.Event{Kind: history.Note, Reason: text})
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.notes) < notesMax {
		r.notes = append(r.notes, text)
	}
}

func nothing() {}

// slot is one member of the fleet: its successive processes and their connection to Redis.
type slot struct {
	run  *run
	name string
	conn connection

	mu        sync.Mutex
	api       string    // address of its API; "": it has none
	reserved  io.Closer // keeps other runs away from api; nil: none
	node      *node     // the current process, or the last one
	left      bool      // it is never started again
	frozen    int       // number of freezes in force
	malformed int64

	firstMalformed string
}

type node struct {
	process.Program
	began int64         // start, run clock
	asked bool          // the plan or the end of the run stops it; guarded by slot.mu
	again bool          // its predecessor was turned away; guarded by slot.mu
	ready chan struct{} // closed at its first "ready"
	done  chan struct{} // closed when its output and its end are recorded
	once  sync.Once

	foreign sync.Once // kills it once for its version of the protocol

	mu       sync.Mutex
	instance string
	pauses   []*injection // faults that requested a pause and no longer wait for it

	pausing sync.Mutex // held during a rescue
}

// system describes one value of Config.System: its keys, the run's own writes to Redis, and the environment of its nodes.
type system struct {
	stream.Keys
	beats    string // prefix of heartbeats that hold a time; "": none do
	sessions string // prefix of sessions; "": the system has none
	prefix   string // prefix of leases; the session's ID follows
	tagged   bool   // all keys share one hash tag; a fence has the prefix of leases and a suffix of its own
	// lease is the only lease, which all nodes want; "": there are several.
	lease string
	// clients: the run stores nothing; clients send intents to APIs, and nodes have roles.
	clients bool
	// env returns additional environment of a slot's node; nil: none.
	env func(*slot) []string
}

// workload plays the application: it stores the sessions that nodes find in Redis, and restores lost ones. Safe for concurrent use.
type workload struct {
	run *run

	mu       sync.Mutex
	rng      *rand.Rand
	created  []string       // session IDs in order of creation: session-1 is the first
	paused   map[string]int // session → number of its active pauses
	removed  map[string]bool
	outdated bool // Redis lacks a change: the last write failed
}

// platform starts nodes and connects them to Redis. Its methods are safe for concurrent use.
type platform interface {
	// open sets up the slot's connection to Redis and, if the slot serves one, the address of its API.
	open(s *slot, stream uint64) error
	// launch starts the slot's next node. It owns stdout and stderr, and closes them also on an error.
	launch(s *slot, stdout, stderr *os.File) (process.Program, error)
	witness(ctx context.Context, r *run) (*target.Target, error)
}

// connection is one node's connection to Redis, with the effects of faults. Its methods are safe for concurrent use.
type connection interface {
	Addr() string
	Apply(fault int, e proxy.Effect) error // adds to the effects of other faults
	Heal(fault int) error
	Sent() int64 // commands since the last call
	Close()
}

// lines are one node's connections. A network fault of the node applies to all of them.
type lines []connection

func (all lines) Addr() string { return all[0].Addr() }

func (all lines) Apply(fault int, e proxy.Effect) error {
	var err error
	for _, l := range all {
		err = errors.Join(err, l.Apply(fault, e))
	}
	return err
}

func (all lines) Heal(fault int) error {
	var err error
	for _, l := range all {
		err = errors.Join(err, l.Heal(fault))
	}
	return err
}

func (all lines) Close() {
	for _, l := range all {
		l.Close()
	}
}

// polled passes an arrival at the target to the faults that wait for it.
func (r *run) polled(e *history.Event) { r.watch.tell(e) }

// lookEvery is the interval of checks for a free port and for Redis's disk space: much shorter than any guarantee's limit.
const lookEvery = 250 * time.Millisecond

// abort ends the run with an error, even in its end phase. The first error counts.
func (r *run) abort(err error) {
	r.mu.Lock()
	first := r.aborted == nil
	r.aborted = cmp.Or(r.aborted, err)
	r.mu.Unlock()
	if first {
		r.notef("%v", err)
		r.end(err)
	}
}

const (
	progressEvery = 200 * time.Millisecond
	lateAfter     = 50 * time.Millisecond
	notesMax      = 200
	// stopGrace is how long nodes may take for a clean stop, in addition to the poll timeout.
	stopGrace = 5 * time.Second
)
