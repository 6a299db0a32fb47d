package virtual

import "github.com/leasestorm/leasestorm/internal/core"

// program runs in a process beside the leases of its core and their polls. Polling alone needs none.
type program interface {
	start()
	// next returns the time of the next tick on the node's monotonic clock, 0 for never.
	next() core.Time
	tick()
	// asks is called before a core's op is sent.
	asks(op *core.Op)
	told(t *core.Tell)
	answered(op *core.Op, a *core.Answer)
	// heard receives a message that does not concern leases. "" means that the process has subscribed and may have missed some.
	heard(text string)
	leases() bool
	// drained is called after the core has drained. False ends the process.
	drained() bool
	died()
	// drain begins a stop. False makes the shell drain the core.
	drain() bool
}

type plainProgram struct{}

func (plainProgram) asks(*core.Op)                   {}
func (plainProgram) told(*core.Tell)                 {}
func (plainProgram) answered(*core.Op, *core.Answer) {}
func (plainProgram) heard(string)                    {}
func (plainProgram) leases() bool                    { return true }
func (plainProgram) drained() bool                   { return false }
func (plainProgram) died()                           {}
