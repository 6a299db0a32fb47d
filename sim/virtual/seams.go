package virtual

import (
	"github.com/leasestorm/leasestorm/internal/core/election"
	"github.com/leasestorm/leasestorm/internal/core/intent"
)

// Seams is where a test breaks a promise on purpose, by altering what passes between the parts of a run. A nil function alters nothing.
// To alter the events and effects of a core, set Config.New.
type Seams struct {
	Script func(text string) string // a script before it is compiled (Config.Lua)

	// Election and Intent step a machine.
	Election func(election.Input, func(election.Input) election.Effects) election.Effects
	Intent   func(intent.Event, func(intent.Event) []intent.Effect) []intent.Effect

	Status func(code int) int // of an API's answer to a caller
}

// through is step as a seam alters it.
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
