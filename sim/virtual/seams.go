package virtual

import (
	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/core/election"
	"github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// Seams alters the data that passes between the parts of a run, to break a guarantee on purpose. Config.New does so for cores.
type Seams struct {
	Script func(text string) string // a script before compilation (Config.Lua)

	Election func(election.Input, func(election.Input) election.Effects) election.Effects
	Intent   func(intent.Event, func(intent.Event) []intent.Effect) []intent.Effect

	Status func(code int) int // status of an API's answer

	// Begun receives the condition (a to f, docs/redis.md) that costs a new epoch a quarantine, "" if it has none. It is not called with
	// Config.Lua, nor for an epoch that always has a quarantine. lost: Redis has lost all data before.
	Begun func(condition string, lost bool)

	older func(op *core.Op, c redisstore.Call) (text string, keys []string, is bool) // see redisConfig.Older
}

func through[In, Out any](seam func(In, func(In) Out) Out, step func(In) Out) func(In) Out {
	if seam == nil {
		return step
	}
	return func(in In) Out { return seam(in, step) }
}

func altered[T any](seam func(T) T, v T) T {
	if seam == nil {
		return v
	}
	return seam(v)
}
