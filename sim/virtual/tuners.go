package virtual

import (
	"strconv"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
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
	c.n = u.number
	if c.slotFrom < slot.fence || c.fence < service.fence {
		e := history.Event{Kind: history.Rejected, Session: c.slot, Instance: c.instance, Fence: c.slotFrom, N: c.n}
		newer := slot.fence
		if c.slotFrom >= slot.fence {
			e.Session, e.Fence, newer = c.service, c.fence, service.fence
		}
		e.Reason = "fence older than " + strconv.FormatInt(newer, 10)
		u.emit(e)
		c.p.back(c, func() { c.refused("refused: an older fence than the slot has seen") })
		return
	}
	c.served = true
	for _, e := range []history.Event{{Session: c.slot, Fence: c.slotFrom}, {Session: c.service, Fence: c.fence}} {
		e.Kind, e.Instance, e.N, e.Reason = history.Arrived, c.instance, c.n, c.session
		u.emit(e)
	}
	for _, old := range []*pipeline{slot.current, service.current} {
		if old != nil {
			u.overAt(old, history.Aborted, "newer fence")
			old.p.back(old, old.pushedOut)
		}
	}
	slot.fence, slot.current = c.slotFrom, c
	service.fence, service.current = c.fence, c
	if c.gone {
		u.after(u.hop(), func() { u.overAt(c, history.Aborted, "gone") })
	}
	c.p.back(c, c.accepted)
}

func (u *tuners) overAt(c *pipeline, kind history.Kind, why string) {
	if !c.served {
		return
	}
	c.served = false
	for _, name := range []string{c.slot, c.service} {
		u.emit(history.Event{Kind: kind, Session: name, Instance: c.instance, N: c.n, Reason: why})
		if p := u.place(name); p.current == c {
			p.current = nil
		}
	}
}

// back calls f in the pipeline's process after the delay of the slot's message.
func (p *intentNode) back(c *pipeline, f func()) {
	p.n.after(p.n.hop(), func() {
		if !c.gone {
			p.n.inProcess(0, f)
		}
	})
}

func (c *pipeline) hangUp() {
	if c.gone {
		return
	}
	c.gone = true
	u := &c.p.iw.tuners
	u.after(u.hop(), func() { u.overAt(c, history.Aborted, "gone") })
}

func (c *pipeline) accepted() {
	if c.state != pipeSending {
		return
	}
	if int64(c.p.n.clock.MonoAt(c.p.n.t))-c.sent >= answerWithin || c.ended && !c.paused {
		c.refused("the slot answered too late")
		return
	}
	c.state = pipeUp
	c.p.launched(c)
	c.letGo()
}

func (c *pipeline) refused(why string) {
	if c.state != pipeSending {
		return
	}
	c.state = pipeOver
	c.hangUp()
	c.p.failed(c, why)
}

func (c *pipeline) pushedOut() {
	if c.state == pipeUp {
		c.over("the slot ended the pipeline")
	}
}

func (c *pipeline) end() {
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
	u := &c.p.iw.tuners
	u.after(u.hop(), func() {
		u.overAt(c, history.Served, "")
		c.p.back(c, func() { c.over("") })
	})
}

func (c *pipeline) over(why string) {
	if c.state == pipeOver {
		return
	}
	c.state = pipeOver
	c.hangUp()
	c.p.returned(c, why)
}
