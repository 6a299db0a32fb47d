package membership

import (
	"context"

	"go.uber.org/zap"

	core "github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/internal/sessionid"
	"github.com/leasestorm/leasestorm/lease/intent"
)

var wrotes = map[intentbus.Wrote]core.Wrote{
	intentbus.WroteOK: core.WroteOK, intentbus.WroteStop: core.WroteStop, intentbus.WroteOver: core.WroteOver,
	intentbus.WroteMissing: core.WroteMissing,
}

// Write executes a Write of the machine, and returns the answering event and Redis' error, if any. To back off, it delays the event of a
// failed Write. The machine retries Retry(m.Life) after that event.
func (m *Member) Write(ctx context.Context, e *core.Effect, resource string) (core.Event, error) {
	wrote, err := m.Bus.Write(ctx, intentbus.Write{
		Session: e.Session, Resource: resource, State: intent.State(e.State), Reason: intent.Reason(e.Reason), Detail: e.Text, Slot: e.Slot,
		Fence: e.Fence, SlotFence: e.SlotFence, Ack: e.Ack,
	})
	ev := core.Event{Kind: core.EvWritten, Session: e.Session, Wrote: wrotes[wrote]}
	if err != nil || ev.Wrote == 0 {
		ev.Wrote = core.WroteFailed
		if more := m.failed(e.Session) - Retry(m.Life); more > 0 {
			m.Pause(ctx, more)
		}
		return ev, err
	}
	m.retries.succeeds(e.Session)
	return ev, nil
}

// Attempted completes e, the result of an attempt at a lease, for the machine. If there was no answer, it sets Wait to the backoff.
func (m *Member) Attempted(e core.Event) core.Event {
	if e.Outcome == core.NoAnswer {
		e.Wait = int64(m.failed(e.Session))
	} else {
		m.retries.succeeds(e.Session)
	}
	return e
}

// Bury makes an entry a dead letter. Unless reason is "", it also ends the session with that reason. If Redis does not answer,
// the bus delivers the entry again.
func (m *Member) Bury(ctx context.Context, e intentbus.Entry, why string, fence int64, reason core.Reason) {
	if err := m.Bus.Bury(ctx, e, why, fence, intent.Reason(reason)); err != nil {
		m.Logger.Info("entry is not a dead letter yet", zap.String("entry", e.ID), zap.Error(err))
		return
	}
	session := e.Session
	if !sessionid.Valid(session) { // it may contain a password
		session = ""
	}
	m.Logger.Warn("entry is a dead letter", zap.String("entry", e.ID), zap.String("session", session), zap.String("why", why))
}

func entryEvent(e *intentbus.Entry) core.Event {
	return core.Event{Kind: core.EvEntry, Entry: core.Entry{
		ID: e.ID, Session: e.Session, Service: e.Resource, Tries: e.Tries, From: e.From, Owner: e.Owner, Fence: e.Fence,
	}}
}

// Job is a worker's state of a session. T is a term of a lease, and W what the worker runs.
type Job[T policy.Term, W any] struct {
	Entry intentbus.Entry
	Terms policy.Terms[T]
	Work  W
}

// Jobs executes the effects of a worker's machine on its sessions. Its functions must not block: each reports its result as a later event.
// Not safe for concurrent use.
type Jobs[T policy.Term, W any] struct {
	Member *Member
	Names  intent.Names
	All    map[string]*Job[T, W] // by session

	Go      func(func(context.Context)) // runs a function that may block
	Acquire func(*core.Effect)
	Release func(session string, terms []T)
	Abandon func(e *core.Effect, j *Job[T, W], terms []T) // neither renews nor releases the terms
	Wrote   func(e *core.Effect, ev core.Event, err error)
	Launch  func(e *core.Effect, j *Job[T, W], resource, slot T) // the worker believes both terms
	Halt    func(*core.Effect, *Job[T, W])
	Forget  func(e *core.Effect, j *Job[T, W], terms []T) // allows that the leases of abandoned terms are acquired again
	Drained func(*core.Effect)
}

// Deliver passes entries to the machine with step. It buries malformed ones, which other programs put on the bus.
func (js *Jobs[T, W]) Deliver(m *core.Machine, entries []intentbus.Entry, step func(core.Event)) {
	for _, e := range entries {
		if m.Has(e.Session) {
			continue
		}
		if why := malformed(js.Names, &e); why != "" {
			js.bury(intentbus.Entry{ID: e.ID, Session: e.Session, Tries: e.Tries}, &core.Effect{Text: why})
			continue
		}
		js.All[e.Session] = &Job[T, W]{Entry: e}
		step(entryEvent(&e))
		if !m.Has(e.Session) {
			delete(js.All, e.Session)
		}
	}
}

// Keep adds a term that the worker has acquired for a session. It reports whether the session still has a job.
func (js *Jobs[T, W]) Keep(session string, term T) bool {
	j := js.All[session]
	if j != nil {
		j.Terms.Keep(term)
	}
	return j != nil
}

// Carry executes an effect.
func (js *Jobs[T, W]) Carry(e core.Effect) {
	j := js.All[e.Session]
	switch e.Kind {
	case core.Acquire:
		js.Acquire(&e)
	case core.Release:
		js.Release(e.Session, j.Terms.Release())
	case core.Abandon:
		js.Abandon(&e, j, j.Terms.Abandon())
	case core.Write:
		resource := j.Entry.Resource
		js.Go(func(ctx context.Context) {
			ev, err := js.Member.Write(ctx, &e, resource)
			js.Wrote(&e, ev, err)
		})
	case core.Launch:
		names := js.Names.Table()
		resource, slot, believed := j.Terms.Launch(names.ResourceLease(j.Entry.Resource), names.SlotLease(e.Slot))
		if believed {
			js.Launch(&e, j, resource, slot)
		} else {
			js.Member.Tell(core.Event{Kind: core.EvLaunched, Session: e.Session, Launch: core.LaunchDoubt})
		}
	case core.Halt:
		js.Halt(&e, j)
	case core.Bury:
		entry := intentbus.Entry{ID: e.Ack}
		if j != nil {
			entry = j.Entry
		}
		entry.Session = e.Session
		js.bury(entry, &e)
	case core.Forget:
		if j != nil { // its work has returned, if it was stuck
			js.Forget(&e, j, j.Terms.Recover())
			delete(js.All, e.Session)
		}
	case core.Drained:
		js.Drained(&e)
	}
}

func (js *Jobs[T, W]) bury(entry intentbus.Entry, e *core.Effect) {
	js.Go(func(ctx context.Context) { js.Member.Bury(ctx, entry, e.Text, e.Fence, e.Reason) })
}

// malformed returns why the store cannot have put e on the bus, or "" if it can.
func malformed(n intent.Names, e *intentbus.Entry) string {
	canonical, err := e.Canonical(n)
	switch {
	case e.Type != "start":
		return "its type is not start"
	case !sessionid.Valid(e.Session):
		return "its session is no UUID in lower case"
	case err != nil:
		return err.Error()
	case canonical != e.Request:
		return "its resource or profile is not written as the API writes it"
	}
	return ""
}
