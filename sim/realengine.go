package sim

import (
	"context"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real"
)

// realEngine runs storms on processes, sockets and Redis.
type realEngine struct {
	choice RedisChoice
	node   []string
	redis  *real.Redis // nil until Open succeeds
}

// NewReal returns the real engine. node is the argument vector of the reference node, for runs whose Config names none.
// The program must call real.ReaperMain first in its main.
func NewReal(choice RedisChoice, node []string) Engine {
	return &realEngine{choice: choice, node: node}
}

func (e *realEngine) Name() string { return EngineReal }

func (e *realEngine) Open(ctx context.Context, dir string) (RedisInfo, error) {
	r, err := real.Provision(ctx, real.RedisChoice(e.choice), "")
	if err != nil {
		return RedisInfo{}, err
	}
	e.redis = r
	return RedisInfo{Kind: r.Kind(), Version: r.Version(), Note: r.Note()}, nil
}

func (e *realEngine) Supports(k fault.Kind) error { return e.redis.Supports(k) }

func (e *realEngine) Run(ctx context.Context, s Storm, rec *history.Recorder) (Outcome, error) {
	node := s.NodeCmd
	if len(node) == 0 {
		node = e.node
	}
	var env []string
	if s.LongPolls {
		env = append(env, "LEASESTORM_LONG_POLLS=true")
	}
	rc := real.Config{
		System: s.System, Nodes: s.Nodes, Sessions: s.Sessions,
		TTL: s.TTL, Renew: s.Renew, Heartbeat: s.Heartbeat, Discovery: s.Discovery,
		Poll: s.Poll, PollTimeout: s.PollTimeout, Serve: s.Serve,
		Storm: s.Config.Storm, Calm: s.Calm, Plan: s.Plan, NodeCmd: node, NodeEnv: env, Dir: s.Dir, Seed: s.Seed,
		Progress: func(p real.Progress) { s.Progress(Progress(p)) },
	}
	if complete := systems[s.System].real; complete != nil {
		complete(s.Config, &rc)
	}
	o, err := real.Run(ctx, e.redis, rc, rec)
	return Outcome{
		Tap: o.Tap, Interrupted: o.Interrupted, RedisCommands: o.RedisCommands, Late: o.Late, Notes: o.Notes,
	}, err
}

func (e *realEngine) Close() error {
	if e.redis == nil {
		return nil
	}
	return e.redis.Close()
}
