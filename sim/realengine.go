package sim

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real"
	"github.com/leasestorm/leasestorm/sim/report"
)

type realEngine struct {
	choice real.RedisChoice
	launch Launcher
	redis  *real.Redis // nil until Open succeeds
}

// NewReal returns the real engine. main must call real.ReaperMain first.
func NewReal(choice real.RedisChoice, launch Launcher) Engine {
	return &realEngine{choice: choice, launch: launch}
}

func (e *realEngine) Name() string { return EngineReal }

func (e *realEngine) Open(ctx context.Context, dir string) (real.Info, error) {
	r, err := real.Provision(ctx, e.choice, "")
	if err != nil {
		return real.Info{}, err
	}
	e.redis = r
	if e.launch.Containers {
		l := real.Launcher{Image: e.launch.Image, Program: e.launch.Node[0], Pulling: e.launch.Pulling}
		if err := r.InContainers(ctx, l); err != nil {
			return real.Info{}, errors.Join(err, e.Close())
		}
	}
	return r.Info, nil
}

func (e *realEngine) Supports(k fault.Kind) error { return e.redis.Supports(k) }

func (e *realEngine) Run(ctx context.Context, s Storm, rec *history.Recorder) (Outcome, error) {
	env, node := NodeCommand(s.NodeCmd)
	own := len(node) == 0 && e.launch.Image == "" && e.choice.Kind != RedisCompose
	if own {
		node = e.launch.Node
	}
	_, isLease := LeaseAdapter(s.NodeCmd)
	if isLease {
		node = slices.Concat(e.launch.Lease, node[1:])
	}
	if s.LongPolls {
		env = append(env, "LEASESTORM_LONG_POLLS=true")
	}
	rc := real.Config{
		System: s.System, Replicas: s.Replicas, Nodes: s.Nodes, Sessions: s.Sessions, Timings: s.Timings, LongPolls: s.LongPolls,
		Storm: s.Config.Storm, Calm: s.Calm, Plan: s.Plan, NodeCmd: node, NodeEnv: env, Logs: filepath.Join(s.Dir, report.LogsName),
		Seed: s.Seed, Speed: s.Speed, NodeParent: isLease, NodeAlone: own, Stores: e.launch.Stores,
		Progress: func(p real.Progress) { s.Progress(Progress{Progress: p}) },
	}
	if complete := systems[s.System].real; complete != nil {
		complete(s.Config, &rc)
	}
	o, err := real.Run(ctx, e.redis, rc, rec)
	return Outcome{Outcome: o}, err
}

func (e *realEngine) Close() error {
	if e.redis == nil {
		return nil
	}
	r := e.redis
	e.redis = nil
	return r.Close()
}
