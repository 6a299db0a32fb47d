package sim

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real"
	"github.com/leasestorm/leasestorm/sim/report"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// Breaker changes a virtual run, such as to a deliberately broken core, to test the judge.
type Breaker = func(*virtual.Config)

// Interpreted returns bend with the store's .lua files in place of their Go twins, to test broken scripts. Equal scripts give equal
// events.
func Interpreted(bend Breaker) Breaker {
	return func(v *virtual.Config) {
		if bend != nil {
			bend(v)
		}
		v.Lua = true
	}
}

type virtualEngine struct{ bend Breaker }

// NewVirtual returns the virtual engine. bend, if set, changes the virtual run's configuration before the start.
func NewVirtual(bend Breaker) Engine { return virtualEngine{bend} }

func (virtualEngine) Name() string { return EngineVirtual }

func (virtualEngine) Open(context.Context, string) (real.Info, error) { return virtualRedis, nil }

var virtualRedis = real.Info{Kind: "model", Note: "virtual time"}

func (virtualEngine) Supports(k fault.Kind) error { return k.AvailableOn(true) }

func (e virtualEngine) Run(ctx context.Context, s Storm, rec *history.Recorder) (Outcome, error) {
	sum := history.NewSum()
	watch := watcher{total: s.Duration(), nodes: s.Nodes, progress: s.Progress}
	logs := newLogFiles(filepath.Join(s.Dir, report.LogsName))
	bend := func(v *virtual.Config) {
		if e.bend != nil {
			e.bend(v)
		}
		v.Output = logs.output
	}
	out, err := runVirtual(ctx, s.Config, s.Plan, bend, func(ev history.Event) {
		rec.Add(ev)
		sum.Add(&ev)
		watch.see(&ev)
	}, logs.write)
	out.SHA256 = sum.String()
	return out, errors.Join(err, logs.close())
}

func (virtualEngine) Close() error { return nil }

// runVirtual runs a configuration on the virtual engine. The caller sets Outcome.SHA256 from the events. log may be nil.
func runVirtual(ctx context.Context, c Config, plan fault.Plan, bend Breaker, emit func(history.Event),
	log func(*virtual.LogEntry),
) (Outcome, error) {
	v := virtual.Config{
		Nodes: c.Nodes, Sessions: c.Sessions, TTL: c.TTL, Renew: c.Renew, Discovery: c.Discovery, OpTimeout: c.RenewTimeout,
		Poll: c.Poll, PollTimeout: c.PollTimeout, Serve: c.Serve, LongPolls: c.LongPolls, Storm: c.Storm, Calm: c.Calm,
		Unannounced: c.Virtual.Unannounced, Local: c.Virtual.Local, Emptied: c.Virtual.Emptied, Net: c.Virtual.Net, Clock: c.Virtual.Clock,
		Sentinel: c.Topology == TopologySentinel, Cluster: c.Topology == TopologyCluster, Replicas: c.Replicas,
		Stop: func() bool { return ctx.Err() != nil }, Log: log,
	}
	if complete := systems[c.System].virtual; complete != nil {
		complete(c, &v)
	}
	if bend != nil {
		bend(&v)
	}
	o, err := virtual.Run(v, plan, c.Seed, emit)
	if err != nil {
		return Outcome{}, fmt.Errorf("virtual engine: %w", err)
	}
	if v.Guest != nil && o.Ready == 0 && !o.Stopped {
		return Outcome{}, fmt.Errorf("virtual engine: %w: none did in %v", real.ErrNodeNotReady, time.Duration(o.VirtualNs))
	}
	out := Outcome{
		Outcome: real.Outcome{Tap: true, Interrupted: o.Stopped, RedisCommands: int64(o.Commands), Notes: o.Skipped},
		Fell:    o.Fell, Hung: o.Hung, Virtual: time.Duration(o.VirtualNs),
	}
	if o.Fell != "" {
		what, _, _ := strings.Cut(o.Fell, "\n")
		out.Notes = append(out.Notes, "its own rules took down "+what)
	}
	return out, nil
}

type watcher struct {
	total    time.Duration
	nodes    int
	progress func(Progress)
	now      Progress
	seen     int
}

const watchEvery = 1 << 18

func (w *watcher) see(e *history.Event) {
	tell := false
	switch e.Kind {
	case history.Phase:
		w.now.Phase, tell = e.Reason, true
	case history.Spawned:
		w.now.Alive++
	case history.Exited:
		w.now.Alive--
	case history.Arrived:
		w.now.Polls++
	case history.Rejected:
		w.now.Rejected++
	}
	if w.seen++; (tell || w.seen%watchEvery == 0) && w.progress != nil {
		w.now.Elapsed, w.now.Total, w.now.Nodes = time.Duration(e.T), w.total, w.nodes
		w.progress(w.now)
	}
}
