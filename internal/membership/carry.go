package membership

import (
	"context"

	"go.uber.org/zap"

	core "github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/sessionid"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

var states = map[core.State]intent.State{
	core.Starting: intent.StateStarting, core.Running: intent.StateRunning, core.Ended: intent.StateEnded,
}

var reasons = map[core.Reason]intent.Reason{
	core.LeaseBusy: intent.ReasonLeaseBusy, core.NoTuner: intent.ReasonNoTuner, core.LeaseLost: intent.ReasonLeaseLost,
	core.Stopped: intent.ReasonStopped, core.PipelineFailed: intent.ReasonPipelineFailed,
}

var wrotes = map[store.Wrote]core.Wrote{
	store.WroteOK: core.WroteOK, store.WroteStop: core.WroteStop, store.WroteOver: core.WroteOver,
	store.WroteMissing: core.WroteMissing,
}

// ReasonText is a reason as it is stored.
func ReasonText(r core.Reason) string { return string(reasons[r]) }

// Write carries out a Write of the machine and returns the event that answers it, and what kept Redis from it. One that failed is
// answered late, since the machine repeats it a Retry later.
func (m *Member) Write(ctx context.Context, e *core.Effect, service string) (core.Event, error) {
	wrote, err := m.Bus.Write(ctx, store.Write{
		Session: e.Session, Service: service, State: states[e.State], Reason: reasons[e.Reason], Detail: e.Text, Slot: e.Slot,
		Fence: e.Fence, TunerFence: e.TunerFence, Ack: e.Ack,
	})
	ev := core.Event{Kind: core.EvWritten, Session: e.Session, Wrote: wrotes[wrote]}
	if err != nil || ev.Wrote == 0 {
		ev.Wrote = core.WroteFailed
		if more := m.Failed(e.Session) - Retry(m.Life); more > 0 {
			m.Pause(ctx, more)
		}
		return ev, err
	}
	m.Answered(e.Session)
	return ev, nil
}

// Attempted is the event of an attempt at a lease as the machine is to be told it: after one without an answer it waits, each time
// longer.
func (m *Member) Attempted(e core.Event) core.Event {
	if e.Outcome == core.NoAnswer {
		e.Wait = int64(m.Failed(e.Session))
	} else {
		m.Answered(e.Session)
	}
	return e
}

// Bury makes an entry a dead letter, and ends its session with that reason, core.NoReason for not at all. If Redis does not answer, the
// entry is delivered again and buried then.
func (m *Member) Bury(ctx context.Context, e store.Entry, why string, fence int64, reason core.Reason) {
	if err := m.Bus.Bury(ctx, e, why, fence, reasons[reason]); err != nil {
		m.Logger.Info("entry not buried yet", zap.String("entry", e.ID), zap.Error(err))
		return
	}
	session := e.Session
	if !sessionid.Valid(session) { // it may be the password
		session = ""
	}
	m.Logger.Warn("entry is a dead letter", zap.String("entry", e.ID), zap.String("session", session), zap.String("why", why))
}

// entryEvent is an entry as the machine is told it.
func entryEvent(e *store.Entry) core.Event {
	return core.Event{Kind: core.EvEntry, Entry: core.Entry{
		ID: e.ID, Session: e.Session, Service: e.ServiceRef, Tries: e.Tries, From: e.From, Owner: e.Owner, Fence: e.Fence,
	}}
}

// Deliver hands entries to the machine. jobs is what the worker has in hand, by session, which job begins and step may end; what cannot
// have been put on the bus by the store is buried.
func Deliver[J any](m *core.Machine, entries []store.Entry, jobs map[string]J, job func(store.Entry) J, step func(core.Event),
	bury func(e store.Entry, why string)) {
	for _, e := range entries {
		if m.Has(e.Session) {
			continue
		}
		if why := malformed(&e); why != "" {
			bury(store.Entry{ID: e.ID, Session: e.Session, Tries: e.Tries}, why)
			continue
		}
		jobs[e.Session] = job(e)
		step(entryEvent(&e))
		if !m.Has(e.Session) {
			delete(jobs, e.Session)
		}
	}
}

// Buried is the entry that a Bury of the machine is about; known is what was delivered, if the machine has it in hand.
func Buried(e *core.Effect, known *store.Entry) store.Entry {
	entry := store.Entry{ID: e.Ack}
	if known != nil {
		entry = *known
	}
	entry.Session = e.Session
	return entry
}

// malformed says why an entry cannot have been put on the bus by the store, "" if it can.
func malformed(e *store.Entry) string {
	canonical, err := e.Canonical()
	switch {
	case e.Type != "start":
		return "its type is not start"
	case !sessionid.Valid(e.Session):
		return "its session is no UUID in lower case"
	case err != nil:
		return err.Error()
	case canonical != e.Start:
		return "what it is to start is not in canonical form"
	}
	return ""
}
