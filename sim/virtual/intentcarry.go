package virtual

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/membership"
	"github.com/leasestorm/leasestorm/lease/intent/store"
	"github.com/leasestorm/leasestorm/sim/client"
	"github.com/leasestorm/leasestorm/sim/history"
)

// This file does for the machine what lease/intent/worker and the keeper of lease do: it carries out what the machine asks for,
// and tells it what became of that.

func (p *intentNode) carry(e *intent.Effect) {
	j, eff := p.jobs[e.Session], *e
	switch e.Kind {
	case intent.Acquire:
		p.acquire(&eff)
	case intent.Release:
		holds := j.holds
		j.holds = nil
		p.release(e.Session, holds)
	case intent.Abandon:
		for _, h := range j.holds {
			if p.holds(h) {
				p.w.step(p.n, core.Event{Kind: core.EvAbandon, ID: h.id})
				j.stuck = append(j.stuck, h.id)
			}
		}
		j.holds = nil
	case intent.Write:
		service := j.entry.ServiceRef
		p.goes(func() {
			ev, _ := p.member.Write(p.ctx, &eff, service) // it says so
			p.answer(ev)
		})
	case intent.Launch:
		p.launch(&eff, j)
	case intent.Halt:
		if c := j.pipeline; c != nil { // else it has returned, which is about to be told
			c.stop = true
			c.letGo()
		}
	case intent.Bury:
		var known *store.Entry
		if j != nil {
			known = &j.entry
		}
		entry := membership.Buried(&eff, known)
		p.goes(func() { _ = p.bus.Bury(p.ctx, entry, eff.Text, eff.Fence, "R_PIPELINE_FAILED") })
	case intent.Forget:
		delete(p.jobs, e.Session)
	case intent.Drained:
		p.closing()
	}
}

// answer tells the machine what a routine brought, unless the process is gone.
func (p *intentNode) answer(e intent.Event) {
	if !p.w.current.dead {
		p.tell(e)
	}
}

// acquire makes one attempt at a lease; with From, that owner passes it on first.
func (p *intentNode) acquire(e *intent.Effect) {
	if e.From == "" {
		p.want(e.Session, e.Lease)
		return
	}
	p.passed.Add(e.Lease)
	p.goes(func() {
		_, err := p.leasesOf.Pass(p.ctx, e.From, p.n.instance, p.w.cfg.TTL, e.Lease)
		switch {
		case p.w.current.dead:
		case err != nil:
			p.tell(intent.Event{Kind: intent.EvLease, Session: e.Session, Lease: e.Lease, Outcome: intent.NoAnswer,
				Wait: int64(p.member.Failed(e.Session))})
		default:
			p.want(e.Session, e.Lease)
		}
	})
}

func (p *intentNode) want(session, id string) {
	if _, tm := p.n.term(id); tm != nil {
		p.tell(p.heldHere(session, id))
		return
	}
	p.wants[id] = append(p.wants[id], session)
	if len(p.wants[id]) == 1 {
		p.w.step(p.n, core.Event{Kind: core.EvWant, ID: id})
	}
}

// heldHere says that another session of this process has the lease.
func (p *intentNode) heldHere(session, id string) intent.Event {
	p.member.Answered(session)
	e := intent.Event{Kind: intent.EvLease, Session: session, Lease: id, Outcome: intent.Held, Owner: p.n.instance}
	if _, tm := p.n.term(id); tm != nil {
		e.Wait = int64(max(0, tm.until-p.n.clock.monoAt(p.w.t)))
	}
	return e
}

func (p *intentNode) told(w *world, n *node, t *core.Tell) {
	switch t.Kind {
	case core.TellAcquired:
		p.acquired(t)
	case core.TellRefused:
		p.refused(t)
	case core.TellRenewed:
		p.tell(intent.Event{Kind: intent.EvRenewed, Lease: t.ID, Fence: t.Fence, Until: t.Until})
	case core.TellLost, core.TellReleased:
		for _, c := range p.running() {
			if c.service == t.ID && c.fence == t.Fence || c.slot == t.ID && c.slotFrom == t.Fence {
				c.end()
			}
		}
		if t.Kind == core.TellLost {
			p.tell(intent.Event{Kind: intent.EvLost, Lease: t.ID, Fence: t.Fence})
			p.settle(t.ID)
		}
		if len(p.wants[t.ID]) > 0 && !n.draining {
			w.step(n, core.Event{Kind: core.EvWant, ID: t.ID})
		}
	case core.TellReleaseFailed:
		p.settle(t.ID)
	}
}

// running returns the pipelines that have not returned, by session.
func (p *intentNode) running() (all []*pipeline) {
	for _, id := range slices.Sorted(maps.Keys(p.jobs)) {
		if c := p.jobs[id].pipeline; c != nil {
			all = append(all, c)
		}
	}
	return all
}

func (p *intentNode) acquired(t *core.Tell) {
	waiting := p.wants[t.ID]
	delete(p.wants, t.ID)
	if len(waiting) == 0 {
		p.drop(t.ID)
		return
	}
	session, id := waiting[0], t.ID
	p.member.Answered(session)
	hold := intentHold{id: id}
	if _, tm := p.n.term(id); tm != nil {
		hold.gen = tm.gen
	}
	p.put(intentMessage{
		f: func() {
			if j := p.jobs[session]; j != nil {
				j.holds = append(j.holds, hold)
			} else {
				p.drop(id)
			}
		},
		event: intent.Event{
			Kind: intent.EvLease, Session: session, Lease: id, Outcome: intent.Granted, Fence: t.Fence, Until: t.Until,
		},
	})
	for _, other := range waiting[1:] {
		p.tell(p.heldHere(other, id))
	}
}

func (p *intentNode) drop(id string) { p.w.drop(p.n, id) }

func (p *intentNode) refused(t *core.Tell) {
	waiting := p.wants[t.ID]
	delete(p.wants, t.ID)
	e := intent.Event{Kind: intent.EvLease, Lease: t.ID}
	final := false
	switch t.Cause {
	case core.CauseHeld:
		e.Outcome, e.Owner, e.Wait = intent.Held, t.Owner, t.Wait
	case core.CauseStuck:
		e.Outcome, e.Owner, final = intent.Held, p.n.instance, true
	case core.CauseQuarantine:
		e.Outcome, e.Wait = intent.NotNow, t.Wait
	case core.CauseWrongType:
		e.Outcome, e.Text, final = intent.Refused, "the key is somebody else's", true
	default:
		e.Outcome, final = intent.NoAnswer, t.Cause == core.CauseDrain
	}
	for _, session := range waiting {
		e.Session = session
		if e.Outcome == intent.NoAnswer {
			e.Wait = int64(p.member.Failed(session))
		} else {
			p.member.Answered(session)
		}
		p.tell(e)
	}
	if final && len(waiting) > 0 {
		p.drop(t.ID)
	}
}

// release gives leases back and waits for Redis' word, no longer than the store's time-out.
func (p *intentNode) release(session string, holds []intentHold) {
	r := &intentRelease{session: session}
	holds = slices.DeleteFunc(holds, func(h intentHold) bool { return !p.holds(h) })
	for _, h := range holds {
		r.left++
		p.releasers[h.id] = append(p.releasers[h.id], r)
	}
	if r.left == 0 {
		p.released(r)
		return
	}
	p.w.inProcess(p.n, p.n.clock.trueOf(0, int64(storePatience)), func() { p.released(r) })
	for _, h := range holds {
		p.drop(h.id)
	}
}

// holds reports whether a term is not over.
func (p *intentNode) holds(h intentHold) bool {
	_, tm := p.n.term(h.id)
	return tm != nil && tm.gen == h.gen
}

func (p *intentNode) released(r *intentRelease) {
	if !r.over {
		r.over = true
		p.tell(intent.Event{Kind: intent.EvReleased, Session: r.session})
	}
}

// settle ends the wait for one lease.
func (p *intentNode) settle(id string) {
	waiting := p.releasers[id]
	delete(p.releasers, id)
	for _, r := range waiting {
		if r.left--; r.left == 0 {
			p.released(r)
		}
	}
}

func (p *intentNode) asks(_ *world, _ *node, op *core.Op) { p.passed.Asked(op) }

func (p *intentNode) answered(_ *world, _ *node, op *core.Op, a *core.Answer) {
	p.passed.Answered(op, a)
	if op.Kind != core.OpRelease || a.Failure != core.FailNone || a.Stale {
		return
	}
	for i := range op.Items {
		if i < len(a.Results) && a.Results[i].Outcome != core.OutUnknown {
			p.settle(op.Items[i].ID)
		}
	}
}

// launch starts the pipeline if both leases are believed in at this instant.
func (p *intentNode) launch(e *intent.Effect, j *intentJob) {
	w, n := p.w, p.n
	service, slot := intent.ServiceLease(j.entry.ServiceRef), intent.TunerLease(e.Slot)
	_, a := n.term(service)
	_, b := n.term(slot)
	if a == nil || b == nil || !n.trusts(a, w.t) || !n.trusts(b, w.t) {
		p.tell(intent.Event{Kind: intent.EvLaunched, Session: e.Session, Launch: intent.LaunchDoubt})
		return
	}
	c := &pipeline{
		p: p, instance: n.instance, session: e.Session, service: service, slot: slot, fence: e.Fence, slotFrom: e.TunerFence,
	}
	j.pipeline = c
	send := func() {
		c.sent = int64(n.clock.monoAt(w.t))
		w.after(w.hop(), func() { w.tune(c) })
	}
	if len(n.pauses) == 0 {
		send()
		return
	}
	// What is sent when it is thawed no lease can prevent, and a fence must.
	n.paused = n.pauses[0]
	n.pauses = n.pauses[1:]
	c.paused = true
	w.say(n, history.Paused, slot, e.TunerFence, "")
	n.witness = w.sessIdx[slot]
	w.freeze(n)
	w.inProcess(n, 0, send)
}

func (p *intentNode) launched(c *pipeline) {
	p.tell(intent.Event{Kind: intent.EvLaunched, Session: c.session, Launch: intent.LaunchOK})
}

func (p *intentNode) failed(c *pipeline, why string) {
	p.over(c)
	p.tell(intent.Event{Kind: intent.EvLaunched, Session: c.session, Launch: intent.LaunchFail, Text: why})
}

func (p *intentNode) returned(c *pipeline, why string) {
	p.over(c)
	p.put(intentMessage{
		f: func() {
			if j := p.jobs[c.session]; j != nil {
				for _, id := range j.stuck {
					p.w.step(p.n, core.Event{Kind: core.EvRecovered, ID: id})
				}
				j.stuck = nil
			}
		},
		event: intent.Event{Kind: intent.EvReturned, Session: c.session, Text: why},
	})
}

func (p *intentNode) over(c *pipeline) {
	if j := p.jobs[c.session]; j != nil && j.pipeline == c {
		j.pipeline = nil
	}
}

// apiStopWithin is how long requests under way may take when the API stops.
const apiStopWithin = int64(time.Second)

// drain ends what start began: no new intents, then what runs, then the leases, and last the place in the registry.
func (p *intentNode) drain(w *world, n *node) bool {
	p.listening, p.stopping = false, true
	ends := int64(0)
	if len(p.open) > 0 {
		ends = apiStopWithin
	}
	w.inProcess(n, ends, func() {
		switch {
		case p.machine == nil:
			p.exits()
		case !p.up:
			p.closing()
		default:
			p.tell(intent.Event{Kind: intent.EvDrain})
			w.inProcess(n, n.clock.trueOf(0, int64(w.cfg.TTL+storePatience)), p.closing)
		}
	})
	return true
}

// closing: the machine has ended everything, or not in time.
func (p *intentNode) closing() {
	if p.ctx.Err() != nil {
		return
	}
	p.cancel()
	p.w.step(p.n, core.Event{Kind: core.EvDrain})
	// What is not confirmed by then is left to expire.
	p.w.inProcess(p.n, p.n.clock.trueOf(0, int64(p.w.cfg.Renew)), p.leave)
}

func (p *intentNode) drained(*world, *node) bool {
	p.leave()
	return true
}

// leave signs off. Last, when its leases are free: whoever is told takes over what is left.
func (p *intentNode) leave() {
	if p.left {
		return
	}
	p.left = true
	p.goes(func() {
		_ = p.bus.Leave(context.Background(), p.n.instance) // the others find out after a TTL
		p.w.inProcess(p.n, 0, p.exits)
	})
}

func (p *intentNode) exits() {
	p.w.say(p.n, history.Stopped, "", 0, "")
	p.w.die(p.n, 0, "asked")
	p.w.comeBack(p.n)
}

// serve has the API answer a request.
func (p *intentNode) serve(req *client.Request, done func(int, []byte)) {
	p.requests++
	number := p.requests
	p.open[number] = done
	p.w.inProcess(p.n, 0, func() {
		p.goes(func() {
			r := must(http.NewRequestWithContext(p.ctx, req.Method, "http://api"+req.Path, strings.NewReader(req.Body)))
			r.RemoteAddr = "127.0.0.1:1"
			if req.Token != "" {
				r.Header.Set("Authorization", "Bearer "+req.Token)
			}
			if req.ContentType != "" {
				r.Header.Set("Content-Type", req.ContentType)
			}
			out := &answerWriter{header: http.Header{}, code: http.StatusOK}
			p.handler.ServeHTTP(out, r)
			_ = r.Body.Close()
			if answer := p.open[number]; answer != nil && !p.w.current.dead {
				delete(p.open, number)
				answer(out.code, out.body.Bytes())
			}
		})
	})
}

// answerWriter is the answer of an API.
type answerWriter struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

var _ io.Writer = (*answerWriter)(nil)

func (a *answerWriter) Header() http.Header         { return a.header }
func (a *answerWriter) WriteHeader(code int)        { a.code = code }
func (a *answerWriter) Write(p []byte) (int, error) { return a.body.Write(p) }
