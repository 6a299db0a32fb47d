package membership

import (
	"context"

	"go.uber.org/zap"

	core "github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/intentnames"
	"github.com/leasestorm/leasestorm/internal/sessionid"
	"github.com/leasestorm/leasestorm/lease/intent"
)

var states = map[core.State]intent.State{
	core.Starting: intent.StateStarting, core.Running: intent.StateRunning, core.Ended: intent.StateEnded,
}

var reasons = map[core.Reason]intent.Reason{
	core.LeaseBusy: intent.ReasonLeaseBusy, core.NoSlot: intent.ReasonNoSlot, core.LeaseLost: intent.ReasonLeaseLost,
	core.Stopped: intent.ReasonStopped, core.PipelineFailed: intent.ReasonPipelineFailed,
}

var wrotes = map[intentbus.Wrote]core.Wrote{
	intentbus.WroteOK: core.WroteOK, intentbus.WroteStop: core.WroteStop, intentbus.WroteOver: core.WroteOver,
	intentbus.WroteMissing: core.WroteMissing,
}

// ReasonText returns the name of r.
func ReasonText(n *intentnames.Names, r core.Reason) string { return n.Reason(string(reasons[r])) }

// Write executes a Write of the machine, and returns the answering event and Redis' error, if any. To back off, it delays the event of a
// failed Write. The machine retries Retry(m.Life) after that event.
func (m *Member) Write(ctx context.Context, e *core.Effect, resource string) (core.Event, error) {
	wrote, err := m.Bus.Write(ctx, intentbus.Write{
		Session: e.Session, Resource: resource, State: states[e.State], Reason: reasons[e.Reason], Detail: e.Text, Slot: e.Slot,
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

// Bury makes an entry a dead letter. Unless reason is core.NoReason, it ends the session with it. If Redis does not answer, the bus
// delivers it again.
func (m *Member) Bury(ctx context.Context, e intentbus.Entry, why string, fence int64, reason core.Reason) {
	if err := m.Bus.Bury(ctx, e, why, fence, reasons[reason]); err != nil {
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

// Deliver passes entries to the machine with step. jobs are the worker's jobs by session: job creates one, and step may end it. Deliver
// buries malformed entries, which other programs put on the bus.
func Deliver[J any](n intent.Names, m *core.Machine, entries []intentbus.Entry, jobs map[string]J, job func(intentbus.Entry) J,
	step func(core.Event), bury func(e intentbus.Entry, why string)) {
	for _, e := range entries {
		if m.Has(e.Session) {
			continue
		}
		if why := malformed(n, &e); why != "" {
			bury(intentbus.Entry{ID: e.ID, Session: e.Session, Tries: e.Tries}, why)
			continue
		}
		jobs[e.Session] = job(e)
		step(entryEvent(&e))
		if !m.Has(e.Session) {
			delete(jobs, e.Session)
		}
	}
}

// Buried returns the entry of a Bury effect. known is the delivered entry, or nil if the worker has no job for it.
func Buried(e *core.Effect, known *intentbus.Entry) intentbus.Entry {
	entry := intentbus.Entry{ID: e.Ack}
	if known != nil {
		entry = *known
	}
	entry.Session = e.Session
	return entry
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
		return "its resource or profile is not in canonical form"
	}
	return ""
}
