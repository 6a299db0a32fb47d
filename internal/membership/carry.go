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

// ReasonText returns r in its stored form.
func ReasonText(r core.Reason) string { return string(reasons[r]) }

// Write executes a Write of the machine, and returns the answering event and Redis' error, if any. To back off, it delays the event of a
// failed Write. The machine retries Retry(m.Life) after that event.
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

// Attempted completes e, the result of an attempt at a lease, for the machine. If there was no answer, it sets Wait to the backoff.
func (m *Member) Attempted(e core.Event) core.Event {
	if e.Outcome == core.NoAnswer {
		e.Wait = int64(m.Failed(e.Session))
	} else {
		m.Answered(e.Session)
	}
	return e
}

// Bury makes an entry a dead letter. Unless reason is core.NoReason, it ends the session with it. If Redis does not answer, the bus
// delivers it again.
func (m *Member) Bury(ctx context.Context, e store.Entry, why string, fence int64, reason core.Reason) {
	if err := m.Bus.Bury(ctx, e, why, fence, reasons[reason]); err != nil {
		m.Logger.Info("entry not buried yet", zap.String("entry", e.ID), zap.Error(err))
		return
	}
	session := e.Session
	if !sessionid.Valid(session) { // it may contain a password
		session = ""
	}
	m.Logger.Warn("entry is a dead letter", zap.String("entry", e.ID), zap.String("session", session), zap.String("why", why))
}

func entryEvent(e *store.Entry) core.Event {
	return core.Event{Kind: core.EvEntry, Entry: core.Entry{
		ID: e.ID, Session: e.Session, Service: e.ServiceRef, Tries: e.Tries, From: e.From, Owner: e.Owner, Fence: e.Fence,
	}}
}

// Deliver passes entries to the machine with step. jobs are the worker's jobs by session: job creates one, and step may end it. Deliver
// buries malformed entries, which other programs put on the bus.
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

// Buried returns the entry of a Bury effect. known is the delivered entry, or nil if the worker has no job for it.
func Buried(e *core.Effect, known *store.Entry) store.Entry {
	entry := store.Entry{ID: e.Ack}
	if known != nil {
		entry = *known
	}
	entry.Session = e.Session
	return entry
}

// malformed returns why the store cannot have put e on the bus, or "" if it can.
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
