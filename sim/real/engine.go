// Package real runs storms on real processes, sockets and Redis servers.
//
// Each node is its own process (docs/node-protocol.md lists its duties) and reaches Redis through its own toxiproxy. The polled target is
// an HTTP server beside the proxies. A node that is cut off from Redis therefore still reaches the target, and only a trust window keeps
// its lease safe then. Package stream reads the grants of Redis from its replication stream, outside the proxies. One clock
// stamps all events, which go into one history. This package judges nothing.
//
//	nodes ──► toxiproxy (one a node) ──► Redis ──► stream ──┐
//	  │ └──────────────► target ────────────────────────────┼──► history.Recorder
//	  └── lines on standard output ─────────────────────────┘
//
// A run leaves nothing behind, however it ends. On Linux, children die with the simulator's thread that started them. A reaper process
// holds a pipe to the simulator. When the pipe ends, it kills process groups and removes folders, keys and containers. Programs that use
// this package must call [ReaperMain] first in main.
//
// Proxies, target and node APIs listen on ports below the ephemeral range. A client that dials a closed port inside that range can get
// this port as its own and connect to itself.
package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/process"
	"github.com/leasestorm/leasestorm/sim/timing"
)

// Run starts the nodes, injects the plan's faults, and stops everything, whatever happens. Nodes, target, stream and harness record events
// in rec. When ctx ends, Run returns within 3 s with a valid history and Outcome.Interrupted, without an error. Errors are those of a
// start (ErrConfig, ErrNodeStart, ErrNodeExited, ErrNodeNotReady), of the host (such as host.ErrNoVerdict), and ErrGone. One Redis
// serves one run at a time.
func Run(ctx context.Context, r *Redis, cfg Config, rec *history.Recorder) (Outcome, error) {
	cfg.System = cmp.Or(cfg.System, systemPolling)
	if err := cfg.validate(r); err != nil {
		return Outcome{}, err
	}
	cfg.readyWithin = cmp.Or(cfg.readyWithin, readyWithin+time.Duration(cfg.Nodes)*readyWithinNode)
	cfg.silentWithin = cmp.Or(cfg.silentWithin, cfg.TTL)
	cfg.grace = cmp.Or(cfg.grace, stopGrace+cfg.PollTimeout)
	run := &run{
		cfg: cfg, system: r.systemOf(cfg.System), redis: r, rec: rec, clock: host.NewClock(), ending: make(chan struct{}),
		shared: shared{slots: map[string]*slot{}, named: map[string][]*node{}, faulted: map[string]int{}, struck: map[int]string{}},
	}
	return run.all(ctx)
}

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
	case (len(c.NodeCmd) == 0 || c.NodeCmd[0] == "") && r.Nodes == "":
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
	if r.target, err = r.redis.platform.witness(ctx, r); err != nil {
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
	if p := r.redis.replicated; p == nil {
		r.openStream(ctx)
	} else {
		p.hear(r.abort, func(m *member) { r.switched(ctx, m) })
		defer p.hear(func(error) {}, nil)
	}
	defer r.redis.closeStores()
	// Lines outlive the nodes, because closing one earlier would be a fault outside the plan.
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
	err = cmp.Or(err, r.aborted) // an earlier interrupt hides it from context.Cause
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
	return host.Sleep(ctx.Done(), r.cfg.Calm)
}

func (r *run) startFleet(ctx context.Context) error {
	if err := r.redis.startStores(ctx, &r.cfg); err != nil {
		return err
	}
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

func (r *run) closeLines() {
	var all sync.WaitGroup
	for _, s := range r.allSlots() {
		all.Go(func() { s.conn.Close() })
		if s.reserved != nil {
			_ = s.reserved.Close()
		}
	}
	all.Wait()
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
