package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/process"
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

const (
	progressEvery = 200 * time.Millisecond
	lateAfter     = 50 * time.Millisecond
	notesMax      = 200
	// stopGrace is how long nodes may take for a clean stop, in addition to the poll timeout.
	stopGrace = 5 * time.Second
)

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

	mu      sync.Mutex
	slots   map[string]*slot
	order   []string
	named   map[string][]*node // instance ID → nodes that reported it
	notes   []string
	late    int
	starved error // why the harness cannot go on
	unsaved error
	active  []activeFault
	healed  int64          // end of the last fault of Redis, run clock
	inHand  map[string]int // slot → number of faults that act on it
	struck  map[int]string // fault of an owner → slot that it hit
}

type activeFault struct {
	n    int
	text string
}

// Run starts the nodes, injects the plan's faults, and stops everything, whatever happens. Nodes, target, stream and harness record events
// in rec. When ctx ends, Run returns within 3 s with a valid history and Outcome.Interrupted, without an error. Errors are those of a
// start (ErrConfig, ErrNodeStart, ErrNodeExited, ErrNodeNotReady), of the host (such as host.ErrNoVerdict), and ErrGone. One Redis serves one
// run at a time.
func Run(ctx context.Context, r *Redis, cfg Config, rec *history.Recorder) (Outcome, error) {
	if cfg.System == "" {
		cfg.System = systemPolling
	}
	if err := cfg.validate(r); err != nil {
		return Outcome{}, err
	}
	if cfg.readyWithin == 0 {
		cfg.readyWithin = readyWithin + time.Duration(cfg.Nodes)*readyWithinNode
	}
	if cfg.silentWithin == 0 {
		cfg.silentWithin = cfg.TTL
	}
	if cfg.grace == 0 {
		cfg.grace = stopGrace + cfg.PollTimeout
	}
	run := &run{
		cfg: cfg, system: r.systemOf(cfg.System), redis: r, rec: rec, clock: host.NewClock(), slots: map[string]*slot{},
		named: map[string][]*node{}, inHand: map[string]int{}, struck: map[int]string{}, ending: make(chan struct{}),
	}
	return run.all(ctx)
}

// Stream numbers of the random sources. They are fixed, so that a seed repeats a run's choices.
const (
	streamSessions = 0
	streamLines    = 100 // plus the number of slots created before
)

func (c *Config) validate(r *Redis) error {
	if err := c.Check(c.LongPolls, 0); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	switch {
	case c.Storm < timing.Min:
		return fmt.Errorf("%w: Storm is %v, at least %v is needed", ErrConfig, c.Storm, timing.Min)
	case r.systemOf(c.System) == nil:
		return fmt.Errorf("%w: System is %q, which this engine does not have", ErrConfig, c.System)
	case c.Nodes < 1:
		return fmt.Errorf("%w: Nodes is %d, at least 1 is needed", ErrConfig, c.Nodes)
	case c.Sessions < 0:
		return fmt.Errorf("%w: Sessions is %d, must not be negative", ErrConfig, c.Sessions)
	case c.Calm < 0:
		return fmt.Errorf("%w: Calm is %v, must not be negative", ErrConfig, c.Calm)
	case (len(c.NodeCmd) == 0 || c.NodeCmd[0] == "") && r.Nodes() == "":
		return fmt.Errorf("%w: NodeCmd is empty: name the program that is a node", ErrConfig)
	}
	for i, f := range c.Plan.Faults {
		if err := r.Supports(f.Kind); err != nil {
			return fmt.Errorf("%w: fault %d of the plan: %w", ErrConfig, i+1, err)
		}
	}
	return nil
}

func (r *run) all(ctx context.Context) (out Outcome, err error) {
	r.setPhase("start")
	var background sync.WaitGroup
	defer background.Wait()
	stop := make(chan struct{})
	defer close(stop)
	ctx, r.end = context.WithCancelCause(ctx)
	defer r.end(nil)
	if r.target, err = r.redis.site.witness(ctx, r); err != nil {
		return out, err
	}
	defer r.target.Close()
	for _, watch := range []func(stop <-chan struct{}){r.watchStalls, r.watchRedis, r.watchPorts, r.watchService, r.report, r.countAll,
		r.watchLost} {
		background.Go(func() { watch(stop) })
	}
	before := r.redis.executed(ctx)
	defer r.closeStreams()
	if r.redis.replicated != nil { // before the epoch is written: each attachment begins a quarantine
		r.openStreams(ctx)
	}
	if err := r.prepare(ctx); err != nil {
		return out, err
	}
	if image := r.redis.Nodes(); image != "" {
		r.record(history.Event{Kind: history.Note, Reason: "nodes run in containers of " + image})
	}
	if r.redis.note != "" {
		r.notef("%s", r.redis.note)
	}
	if p := r.redis.replicated; p == nil {
		r.openStream(ctx)
	} else {
		p.hear(r.starve, func(m *member) { r.switched(ctx, m) })
		defer p.hear(func(error) {}, nil)
	}
	// Lines outlive the nodes: closing one earlier would be a fault outside the plan.
	defer r.closeLines()
	if err = r.startFleet(ctx); err == nil {
		silence := func() {}
		if r.system.clients {
			silence = r.startClients(ctx).close
		}
		out.Interrupted = !r.play(ctx)
		silence()
		if !out.Interrupted {
			err = r.redis.gone(ctx)
		}
	} else if ctx.Err() != nil {
		out.Interrupted, err = true, nil
	}
	r.setPhase("end")
	close(r.ending)
	r.stopFleet(ctx.Err() != nil || err != nil)
	r.tail.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, host.ErrNoVerdict) || errors.Is(cause, ErrGone) { // even if it came after the calm
		err = cause
	}
	out.RedisCommands = max(0, r.redis.executed(context.Background())-before)
	out.Tap = r.stream != nil
	r.finalNotes()
	r.mu.Lock()
	defer r.mu.Unlock()
	err = cmp.Or(err, r.starved) // an earlier interrupt hides it from context.Cause
	out.Late, out.Notes, out.Unsaved = r.late, slices.Clone(r.notes), r.unsaved
	return out, err
}

// play runs storm and calm. It returns false if the context ends before they do.
func (r *run) play(ctx context.Context) bool {
	start := time.Now()
	r.storm.Store(r.clock.Now())
	r.setPhase("storm")
	if within := weighed(r.cfg.Timings); within < r.cfg.Storm {
		defer time.AfterFunc(within, r.weigher(within)).Stop()
	}
	storm, cancel := context.WithDeadline(ctx, start.Add(r.cfg.Storm))
	r.injectAll(ctx, storm, start)
	<-storm.Done()
	cancel()
	if ctx.Err() != nil {
		return false
	}
	if err := r.work.repair(ctx); err != nil {
		r.notef("%v", err)
	}
	r.setPhase("calm")
	calm := time.NewTimer(r.cfg.Calm)
	defer calm.Stop()
	select {
	case <-calm.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *run) startFleet(ctx context.Context) error {
	nodes := make([]*node, r.cfg.Nodes)
	for i := range nodes {
		s, err := r.addSlot(fault.NodeTarget(i + 1))
		if err != nil {
			return err
		}
		if nodes[i], err = s.start(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	within := r.cfg.readyWithin
	late := time.NewTimer(within)
	defer late.Stop()
	for i, n := range nodes {
		s := r.slot(fault.NodeTarget(i + 1))
		select {
		case <-n.ready:
		case <-n.done:
			if n.wasReady() { // it was ready before its end
				continue
			}
			_, code := n.End()
			return fmt.Errorf("%w: %s (%s) with code %d: %s", ErrNodeExited, s.name, r.nodeCmd(), code,
				s.malformedOutput()+s.stderrTail())
		case <-late.C:
			return fmt.Errorf("%w: %s (%s) within %v: a node prints {\"event\":\"ready\",\"instance\":\"…\"}; %s",
				ErrNodeNotReady, s.name, r.nodeCmd(), within, s.malformedOutput()+s.stderrTail())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if p, ok := nodes[0].Program.(*process.Process); ok { // the others have the same launcher
		return p.Strange()
	}
	return nil
}

func (r *run) stopFleet(hurry bool) {
	grace := r.cfg.grace
	if hurry {
		grace = process.InterruptGrace
	}
	var all sync.WaitGroup
	for _, s := range r.allSlots() {
		all.Go(func() { s.finish(grace) })
	}
	all.Wait()
}

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

func (r *run) slot(name string) *slot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slots[name]
}

func (r *run) allSlots() []*slot {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*slot, 0, len(r.order))
	for _, name := range r.order {
		out = append(out, r.slots[name])
	}
	return out
}

func (r *run) closeLines() {
	var all sync.WaitGroup
	for _, s := range r.allSlots() {
		all.Go(func() { s.way.Close() })
		if s.reserved != nil {
			_ = s.reserved.Close()
		}
	}
	all.Wait()
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

func (r *run) finalNotes() {
	for _, s := range r.allSlots() {
		s.mu.Lock()
		n := s.malformed
		s.mu.Unlock()
		if n > 0 {
			r.notef("%s: %d malformed lines on standard output", s.name, n)
		}
	}
	if n := r.target.Strangers.Load(); n > 0 {
		r.notef("the target was polled %d times for sessions that do not exist", n)
	}
}

func (r *run) report(stop <-chan struct{}) {
	if r.cfg.Progress != nil {
		host.Every(progressEvery, stop, func() { r.cfg.Progress(r.progress()) })
	}
}

func (r *run) progress() Progress {
	p := Progress{Total: r.cfg.Storm + r.cfg.Calm, Phase: *r.phase.Load(), Overload: r.load.Overload()}
	if start := r.storm.Load(); start > 0 {
		p.Elapsed = min(p.Total, time.Duration(r.clock.Now()-start))
	}
	for _, s := range r.allSlots() {
		s.mu.Lock()
		if !s.left {
			p.Nodes++
		}
		if s.node != nil && s.node.alive() {
			p.Alive++
		}
		s.mu.Unlock()
	}
	p.Polls, p.Rejected, p.Violations = r.target.Polls.Load(), r.target.Rejected.Load(), r.target.Violations.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.active); n > 0 {
		p.Fault = r.active[n-1].text
	}
	return p
}

func nothing() {}
