package virtual

import (
	"github.com/leasestorm/leasestorm/internal/core/election"
	"github.com/leasestorm/leasestorm/internal/core/intent"
)

// Seams alters what passes between the parts of a run, to break a promise on purpose. Config.New does so for cores.
type Seams struct {
	Script func(text string) string // a script before it is compiled (Config.Lua)

	Election func(election.Input, func(election.Input) election.Effects) election.Effects
	Intent   func(intent.Event, func(intent.Event) []intent.Effect) []intent.Effect

	Status func(code int) int // of an API's answer to a caller

	// Begun is called with the condition (a to f) for which an epoch has a quarantine where none was known, "" if it has none. It is not
	// called with Config.Lua. lost: an epoch was known before.
	Begun func(condition string, lost bool)
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
