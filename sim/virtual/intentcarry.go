package virtual

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/membership"
	"github.com/leasestorm/leasestorm/internal/policy"
	prod "github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/sim/client"
)

// newJobs returns the jobs, which carry out the machine's effects.
func (p *intentNode) newJobs() intentJobs {
	each := func(kind core.EventKind) func(*intent.Effect, *intentJob, []intentHold) {
		return func(_ *intent.Effect, _ *intentJob, holds []intentHold) {
			for _, h := range holds {
				p.n.step(core.Event{Kind: kind, ID: h.id, Fence: h.fence})
			}
		}
	}
	return intentJobs{
		Member: p.member, Names: prod.ADR003(), All: map[string]*intentJob{}, Acquire: p.acquire, Release: p.release, Launch: p.launch,
		Go: func(f func(context.Context)) { p.goes(func() { f(p.ctx) }) },
		Wrote: func(_ *intent.Effect, ev intent.Event, _ error) { // ev reports the error
			if !p.n.fleet.routines.current.dead {
				p.tell(ev)
			}
		},
		Halt: func(_ *intent.Effect, j *intentJob) {
			if c := j.Work; c != nil { // otherwise EvReturned is pending
				c.stop = true
				c.letGo()
			}
		},
		Abandon: each(core.EvAbandon),
		Forget:  each(core.EvRecovered),
		Drained: func(*intent.Effect) { p.ended.fire() },
	}
}

// acquire attempts to get a lease. If From is set, it first passes the lease on from From.
func (p *intentNode) acquire(e *intent.Effect) {
	if e.From == "" {
		p.want(e.Session, e.Lease)
		return
	}
	p.passed.Add(e.Lease)
	p.goes(func() {
		_, err := p.leasesOf.Pass(p.ctx, e.From, p.n.instance, p.n.cfg.TTL, e.Lease)
		switch {
		case p.n.fleet.routines.current.dead:
		case err != nil:
			p.tell(p.member.Attempted(intent.Event{Kind: intent.EvLease, Session: e.Session, Lease: e.Lease, Outcome: intent.NoAnswer}))
		default:
			p.want(e.Session, e.Lease)
		}
	})
}

func (p *intentNode) want(session, id string) {
	_, tm := p.n.shell.term(id)
	p.take(id, p.wants.Want(id, session, false, tm != nil))
}

// take carries out a decision about the sessions that wait for a lease. won handles the session that gets it.
func (p *intentNode) take(id string, t policy.Reply[string, intent.Event]) {
	for _, c := range t.Heard {
		e := t.Why
		switch c.Word {
		case policy.Won:
			continue
		case policy.Held:
			e = p.heldHere(id)
		}
		e.Session = c.Caller
		p.tell(p.member.Attempted(e))
	}
	if t.Want {
		p.n.step(core.Event{Kind: core.EvWant, ID: id, Wait: t.Wait})
	}
	if t.Drop {
		p.n.drop(id)
	}
}

func (p *intentNode) heldHere(id string) intent.Event {
	e := intent.Event{Kind: intent.EvLease, Lease: id, Outcome: intent.Held, Owner: p.n.instance}
	if _, tm := p.n.shell.term(id); tm != nil {
		e.Wait = int64(max(0, tm.until-p.n.mono()))
	}
	return e
}

func (p *intentNode) told(t *core.Tell) {
	switch t.Kind {
	case core.TellAcquired:
		p.acquired(t)
	case core.TellRefused:
		p.refused(t)
	case core.TellRenewed:
		p.tell(intent.Event{Kind: intent.EvRenewed, Lease: t.ID, Fence: t.Fence, Until: t.Until})
	case core.TellLost, core.TellReleased:
		p.untrusted(t)
		if t.Kind == core.TellLost {
			p.tell(intent.Event{Kind: intent.EvLost, Lease: t.ID, Fence: t.Fence})
			p.settle(p.releases.Over(t.ID))
		}
		p.take(t.ID, p.wants.Over(t.ID))
	case core.TellYield:
		p.untrusted(t)
	case core.TellReleaseFailed:
		p.settle(p.releases.Over(t.ID))
	}
}

func (p *intentNode) untrusted(t *core.Tell) {
	for _, c := range p.running() {
		if c.service == t.ID && c.fence == t.Fence || c.slot == t.ID && c.slotFrom == t.Fence {
			c.end()
		}
	}
}

func (p *intentNode) running() (all []*pipeline) {
	for _, id := range slices.Sorted(maps.Keys(p.jobs.All)) {
		if c := p.jobs.All[id].Work; c != nil {
			all = append(all, c)
		}
	}
	return all
}

func (p *intentNode) acquired(t *core.Tell) {
	id, heard := t.ID, p.wants.Acquired(t.ID)
	if heard.Given {
		p.won(t, heard.Heard[0].Caller)
	}
	p.take(id, heard)
}

func (p *intentNode) won(t *core.Tell, session string) {
	id := t.ID
	hold := intentHold{p: p, id: id, fence: t.Fence}
	if _, tm := p.n.shell.term(id); tm != nil {
		hold.gen = tm.gen
	}
	p.put(intentMessage{
		f: func() {
			if !p.jobs.Keep(session, hold) {
				p.n.drop(id)
			}
		},
		event: p.member.Attempted(intent.Event{
			Kind: intent.EvLease, Session: session, Lease: id, Outcome: intent.Granted, Fence: t.Fence, Until: t.Until,
		}),
	})
}

func (p *intentNode) refused(t *core.Tell) {
	p.take(t.ID, p.wants.Refused(t.ID, t.Cause, func() intent.Event {
		e := intent.Event{Kind: intent.EvLease, Lease: t.ID}
		switch t.Cause {
		case core.CauseHeld:
			e.Outcome, e.Owner, e.Wait = intent.Held, t.Owner, t.Wait
		case core.CauseStuck:
			e.Outcome, e.Owner = intent.Held, p.n.instance
		case core.CauseQuarantine:
			e.Outcome, e.Wait = intent.NotNow, t.Wait
		case core.CauseWrongType:
			e.Outcome, e.Text = intent.Refused, "the key is somebody else's"
		default:
			e.Outcome = intent.NoAnswer
		}
		return e
	}))
}

// release releases leases and waits for Redis' confirmation, at most for the store's timeout.
func (p *intentNode) release(session string, holds []intentHold) {
	r := &intentRelease{session: session}
	holds = slices.DeleteFunc(holds, func(h intentHold) bool { return h.term() == nil })
	for _, h := range holds {
		r.left++
		p.releases.Wait(h.id, r)
	}
	if r.left == 0 {
		p.confirmed(r)
		return
	}
	p.n.inProcess(p.n.clock.TrueOf(0, int64(storePatience)), func() { p.confirmed(r) })
	for _, h := range holds {
		p.n.drop(h.id)
	}
}

func (p *intentNode) confirmed(r *intentRelease) {
	if !r.over {
		r.over = true
		p.tell(intent.Event{Kind: intent.EvReleased, Session: r.session})
	}
}

func (p *intentNode) settle(waiting []*intentRelease) {
	for _, r := range waiting {
		if r.left--; r.left == 0 {
			p.confirmed(r)
		}
	}
}

func (p *intentNode) asks(op *core.Op) { p.passed.Asked(op) }

func (p *intentNode) answered(op *core.Op, a *core.Answer) {
	p.passed.Answered(op, a)
	p.settle(p.releases.Answered(op, a))
}

func (p *intentNode) launch(e *intent.Effect, j *intentJob, resource, place intentHold) {
	n, service, slot := p.n, resource.id, place.id
	c := &pipeline{
		p: p, instance: n.instance, session: e.Session, service: service, slot: slot, fence: e.Fence, slotFrom: e.SlotFence,
	}
	j.Work = c
	send := func() {
		c.sent = int64(n.mono())
		n.after(n.hop(), func() { p.iw.tuners.serve(c) })
	}
	// After a freeze, no lease can prevent the send, so a fence must.
	if c.paused = n.freezes(slot, e.SlotFence, n.fleet.app.index[slot]); c.paused {
		n.inProcess(0, send)
	} else {
		send()
	}
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
	p.put(intentMessage{event: intent.Event{Kind: intent.EvReturned, Session: c.session, Text: why}})
}

func (p *intentNode) over(c *pipeline) {
	if j := p.jobs.All[c.session]; j != nil && j.Work == c {
		j.Work = nil
	}
}

// apiStopWithin bounds the wait for pending requests when the API stops.
const apiStopWithin = int64(time.Second)

func (p *intentNode) drain() bool {
	p.listening, p.stopping = false, true
	p.n.fleet.routines.begin(p.n, p.stop)
	return true
}

// stop ends the API, the pipelines, the leases and the worker's registry entry, in this order.
func (p *intentNode) stop(r *routine) {
	answers := int64(0)
	if len(p.open) > 0 {
		answers = apiStopWithin
	}
	switch {
	case !p.silent.wait(r, answers):
	case p.machine == nil:
		p.n.stopped()
	case p.up:
		p.n.fleet.routines.begin(p.n, p.stopWorker)
		p.tell(intent.Event{Kind: intent.EvDrain})
	default:
		p.ended.on = true
		p.stopWorker(r)
	}
}

// stopWorker mirrors Worker.Stop of lease/intent/worker.
func (p *intentNode) stopWorker(r *routine) {
	if !p.ended.wait(r, endlessly) {
		return
	}
	p.cancel()
	if p.kicked.set(); p.beating && !p.beaten.wait(r, endlessly) {
		return
	}
	p.wants.Close()
	p.n.step(core.Event{Kind: core.EvDrain})
	// Leases whose release is not confirmed by then expire.
	timeout := membership.ReleaseTimeout(p.n.cfg.TTL, storePatience)
	if !p.released.wait(r, p.n.clock.TrueOf(0, int64(timeout))) {
		return
	}
	_ = p.member.SignOff(context.Background()) // if it fails, the entry expires
	if r.sleep(0) {
		p.n.stopped()
	}
}

func (p *intentNode) drained() bool {
	p.released.fire()
	return true
}

func (p *intentNode) serve(req *client.Request, done func(int, []byte)) {
	p.requests++
	number := p.requests
	p.open[number] = done
	p.n.inProcess(0, func() {
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
			if answer := p.open[number]; answer != nil && !p.n.fleet.routines.current.dead {
				delete(p.open, number)
				answer(altered(p.n.cfg.Seams.Status, out.code), out.Bytes())
				if p.stopping && len(p.open) == 0 {
					p.silent.set()
				}
			}
		})
	})
}

type answerWriter struct {
	bytes.Buffer
	header http.Header
	code   int
}

func (a *answerWriter) Header() http.Header  { return a.header }
func (a *answerWriter) WriteHeader(code int) { a.code = code }
