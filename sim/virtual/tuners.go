package virtual

import (
	"strconv"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/sim/history"
)

// tuners are the target of a storm of intents, as in the real engine. Slots serve pipelines under the fences of their slot and service. A
// slot refuses a pipeline if slot or service has seen a newer fence, and a newer pipeline ends an older one.
type tuners struct {
	*timeline
	slots  []string
	places map[string]*tunerPlace // slots and services; never ranged over
	number int64
}

// tunerPlace is a slot or a service. It serves one pipeline at a time.
type tunerPlace struct {
	fence   int64
	current *pipeline
}

// pipeline is the work of one session on its slot, as internal/node/pipeline.go does it, with the slot's side of it.
type pipeline struct {
	n               *node
	u               *tuners
	tell            func(intent.Event) // the worker's machine, of this session
	instance        string
	session         string
	service, slot   string // leases
	fence, slotFrom int64  // of the service, and of the slot

	// In the process.
	state  pipelineState
	paused bool // frozen between the check of its leases and the send
	sent   int64
	ended  bool // a lease is no longer trusted
	stop   bool // an end was requested

	// At the tuner.
	number int64
	served bool
	gone   bool // its connection is closed
}

type pipelineState uint8

const (
	pipeSending pipelineState = iota
	pipeUp
	pipeLetting
	pipeOver
)

func (u *tuners) place(name string) *tunerPlace {
	p := u.places[name]
	if p == nil {
		p = &tunerPlace{}
		u.places[name] = p
	}
	return p
}

const answerWithin = int64(time.Second)

func (u *tuners) serve(c *pipeline) {
	slot, service := u.place(c.slot), u.place(c.service)
	u.number++
	c.number = u.number
	if c.slotFrom < slot.fence || c.fence < service.fence {
		e := history.Event{Kind: history.Rejected, Session: c.slot, Instance: c.instance, Fence: c.slotFrom, N: c.number}
		newer := slot.fence
		if c.slotFrom >= slot.fence {
			e.Session, e.Fence, newer = c.service, c.fence, service.fence
		}
		e.Reason = "fence older than " + strconv.FormatInt(newer, 10)
		u.emit(e)
		c.back(func() { c.refused("refused: an older fence than the slot has seen") })
		return
	}
	c.served = true
	for _, e := range []history.Event{{Session: c.slot, Fence: c.slotFrom}, {Session: c.service, Fence: c.fence}} {
		e.Kind, e.Instance, e.N, e.Reason = history.Arrived, c.instance, c.number, c.session
		u.emit(e)
	}
	for _, old := range []*pipeline{slot.current, service.current} {
		if old != nil {
			u.overAt(old, history.Aborted, "newer fence")
			old.back(old.pushedOut)
		}
	}
	slot.fence, slot.current = c.slotFrom, c
	service.fence, service.current = c.fence, c
	if c.gone {
		u.after(u.hop(), func() { u.overAt(c, history.Aborted, "gone") })
	}
	c.back(c.accepted)
}

func (u *tuners) overAt(c *pipeline, kind history.Kind, why string) {
	if !c.served {
		return
	}
	c.served = false
	for _, name := range []string{c.slot, c.service} {
		u.emit(history.Event{Kind: kind, Session: name, Instance: c.instance, N: c.number, Reason: why})
		if p := u.place(name); p.current == c {
			p.current = nil
		}
	}
}

// back calls f in the pipeline's process after the delay of the slot's message.
func (c *pipeline) back(f func()) {
	c.n.after(c.n.hop(), func() {
		if !c.gone {
			c.n.inProcess(0, f)
		}
	})
}

func (c *pipeline) hangUp() {
	if c.gone {
		return
	}
	c.gone = true
	c.u.after(c.u.hop(), func() { c.u.overAt(c, history.Aborted, "gone") })
}

func (c *pipeline) accepted() {
	if c.state != pipeSending {
		return
	}
	if int64(c.n.mono())-c.sent >= answerWithin || c.ended && !c.paused {
		c.refused("the slot answered too late")
		return
	}
	c.state = pipeUp
	c.tell(intent.Event{Kind: intent.EvLaunched, Launch: intent.LaunchOK})
	c.letGo()
}

func (c *pipeline) refused(why string) {
	if c.state != pipeSending {
		return
	}
	c.state = pipeOver
	c.hangUp()
	c.tell(intent.Event{Kind: intent.EvLaunched, Launch: intent.LaunchFail, Text: why})
}

func (c *pipeline) pushedOut() {
	if c.state == pipeUp {
		c.over("the slot ended the pipeline")
	}
}

// untrusted ends the pipeline if t is about one of its leases.
func (c *pipeline) untrusted(t *core.Tell) {
	if (c.service != t.ID || c.fence != t.Fence) && (c.slot != t.ID || c.slotFrom != t.Fence) {
		return
	}

	c.ended = true
	if c.state == pipeSending && !c.paused {
		c.refused("context canceled")
	}
	c.letGo()
}

// letGo makes the slot confirm that it no longer serves the session, if the pipeline must end.
func (c *pipeline) letGo() {
	if c.state != pipeUp || !c.stop && !c.ended {
		return
	}
	c.state = pipeLetting
	c.u.after(c.u.hop(), func() {
		c.u.overAt(c, history.Served, "")
		c.back(func() { c.over("") })
	})
}

func (c *pipeline) over(why string) {
	if c.state == pipeOver {
		return
	}
	c.state = pipeOver
	c.hangUp()
	c.tell(intent.Event{Kind: intent.EvReturned, Text: why})
}
