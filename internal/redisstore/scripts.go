package redisstore

import (
	"context"
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/life.lua
var lifeText string

//go:embed lua/epoch.lua
var epochText string

//go:embed lua/acquire.lua
var acquireText string

//go:embed lua/renew.lua
var renewText string

//go:embed lua/reassert.lua
var reassertText string

//go:embed lua/release.lua
var releaseText string

//go:embed lua/observe.lua
var observeText string

//go:embed lua/nodes.lua
var nodesText string

//go:embed lua/owners.lua
var ownersText string

//go:embed lua/beat.lua
var beatText string

//go:embed lua/leave.lua
var leaveText string

//go:embed lua/supersede.lua
var supersedeText string

//go:embed lua/replicas.lua
var replicasText string

//go:embed lua/quarantine.lua
var quarantineText string

//go:embed lua/pass.lua
var passText string

//go:embed lua/bootstrap.lua
var bootstrapText string

//go:embed lua/probe.lua
var probeText string

//go:embed lua/sweep.lua
var sweepText string

// script is a script with its text, which a *redis.Script keeps to itself.
type script struct {
	*redis.Script
	text string
}

var (
	acquireScript    = guarded(acquireText)
	renewScript      = guarded(renewText)
	reassertScript   = guarded(reassertText)
	releaseScript    = guarded(releaseText)
	observeScript    = guarded(observeText)
	nodesScript      = guarded(nodesText)
	ownersScript     = guarded(ownersText)
	beatScript       = guarded(beatText)
	leaveScript      = guarded(leaveText)
	supersedeScript  = guarded(supersedeText)
	quarantineScript = guarded(quarantineText)
	replicasScript   = guarded(replicasText)
	passScript       = redis.NewScript(passText)
	bootstrapScript  = redis.NewScript(lifeText + bootstrapText)
	probeScript      = redis.NewScript(probeText)
	sweepScript      = redis.NewScript(sweepText)
)

func guarded(text string) *script {
	text = EpochText() + text
	return &script{redis.NewScript(text), text}
}

// run calls a script by its SHA and, where Redis does not know it, once more by its text: NOSCRIPT says that nothing was
// executed.
func (s *Store) run(ctx context.Context, c Call) ([]any, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return c.script.Run(ctx, s.client, c.Keys, c.Args...).Slice()
}

// deadline bounds ctx, so that no attempt can hang.
func (s *Store) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.wire.opt.OpTimeout)
}
