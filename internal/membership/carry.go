package membership

import (
	"context"

	"github.com/google/uuid"

	core "github.com/leasestorm/leasestorm/internal/core/intent"
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

// Event is an entry as the machine is told it.
func Event(e *store.Entry) core.Event {
	return core.Event{Kind: core.EvEntry, Entry: core.Entry{
		ID: e.ID, Session: e.Session, Service: e.ServiceRef, Tries: e.Tries, From: e.From, Owner: e.Owner, Fence: e.Fence,
	}}
}

// Buried is the entry that a Bury of the machine is about; known is what was delivered, if the machine has it in hand.
func Buried(e *core.Effect, known *store.Entry) store.Entry {
	entry := store.Entry{ID: e.Ack}
	if known != nil {
		entry = *known
	}
	entry.Session = e.Session
	if e.Reason == core.NoReason {
		entry.Session = ""
	}
	return entry
}

// Malformed says why an entry cannot have been put on the bus by the store, "" if it can.
func Malformed(e *store.Entry) string {
	canonical, err := e.Canonical()
	switch {
	case e.Type != "start":
		return "its type is not start"
	case len(e.Session) != 36 || uuid.Validate(e.Session) != nil:
		return "its session is no UUID"
	case err != nil:
		return err.Error()
	case canonical != e.Start:
		return "what it is to start is not in canonical form"
	}
	return ""
}
