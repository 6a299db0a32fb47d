package store

import (
	"context"
	_ "embed"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

//go:embed lua/common.lua
var commonText string

//go:embed lua/busy.lua
var busyText string

//go:embed lua/lease.lua
var leaseText string

//go:embed lua/put.lua
var putText string

//go:embed lua/read.lua
var readText string

//go:embed lua/list.lua
var listText string

//go:embed lua/stop.lua
var stopText string

//go:embed lua/write.lua
var writeText string

//go:embed lua/beat.lua
var beatText string

//go:embed lua/leave.lua
var leaveText string

//go:embed lua/workers.lua
var workersText string

//go:embed lua/delete.lua
var deleteText string

//go:embed lua/sweep.lua
var sweepText string

//go:embed lua/begun.lua
var begunText string

//go:embed lua/disown.lua
var disownText string

//go:embed lua/bury.lua
var buryText string

//go:embed lua/letters.lua
var lettersText string

//go:embed lua/requeue.lua
var requeueText string

var (
	putScript       = redis.NewScript(commonText + putText)
	putLeasedScript = redis.NewScript(commonText + busyText + redisstore.EpochText() + leaseText + putText)
	readScript      = redis.NewScript(commonText + readText)
	listScript      = redis.NewScript(commonText + listText)
	stopScript      = redis.NewScript(commonText + stopText)
	writeScript     = redis.NewScript(commonText + writeText)
	beatScript      = redis.NewScript(commonText + beatText)
	leaveScript     = redis.NewScript(commonText + leaveText)
	workersScript   = redis.NewScript(commonText + workersText)
	deleteScript    = redis.NewScript(commonText + deleteText)
	sweepScript     = redis.NewScript(commonText + sweepText)
	begunScript     = redis.NewScript(commonText + begunText)
	disownScript    = redis.NewScript(commonText + disownText)
	buryScript      = redis.NewScript(commonText + buryText)
	lettersScript   = redis.NewScript(commonText + lettersText)
	requeueScript   = redis.NewScript(commonText + requeueText)
)

// run calls a script. The keys of its own are built from the prefix; KEYS[1] says in which slot of a cluster they are.
func (s *Store) run(ctx context.Context, script *redis.Script, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.OpTimeout)
	defer cancel()
	all := append(make([]any, 0, 4+len(args)), "", "", s.opt.KeyPrefix, s.opt.Retention.Milliseconds())
	reply, err := s.batcher.call(ctx, script, []string{s.bus}, append(all, args...)...)
	if err != nil {
		return nil, unavailable(s.named(ctx, err))
	}
	return reply, nil
}
