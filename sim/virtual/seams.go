package virtual

import (
	"github.com/leasestorm/leasestorm/internal/core/election"
	"github.com/leasestorm/leasestorm/internal/core/intent"
)

// Seams is where a test alters what passes between the parts of a run, to break a promise on purpose. A nil function alters nothing.
// What a core is told and asks for is altered by the machine that Config.New makes.
type Seams struct {
	Script func(text string) string // a script before it is compiled (Config.Lua)

	// Election and Intent step a machine.
	Election func(election.Input, func(election.Input) election.Effects) election.Effects
	Intent   func(intent.Event, func(intent.Event) []intent.Effect) []intent.Effect

	Status func(code int) int // of an API's answer to a caller
}

func (s *Seams) script(text string) string {
	if s.Script == nil {
		return text
	}
	return s.Script(text)
}

func (s *Seams) election(in election.Input, step func(election.Input) election.Effects) election.Effects {
	if s.Election == nil {
		return step(in)
	}
	return s.Election(in, step)
}

func (s *Seams) intent(e intent.Event, step func(intent.Event) []intent.Effect) []intent.Effect {
	if s.Intent == nil {
		return step(e)
	}
	return s.Intent(e, step)
}

func (s *Seams) status(code int) int {
	if s.Status == nil {
		return code
	}
	return s.Status(code)
}
