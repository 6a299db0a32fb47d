package core

import "github.com/leasestorm/leasestorm/internal/term"

// tells are the notifications of a step.
type tells struct {
	k   *term.Kernel // read only
	all []Tell
}

func (o *tells) tell(t Tell) {
	t.At = o.k.Now()
	o.all = append(o.all, t)
}
