package lease

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/leasestorm/leasestorm/internal/callback"
	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/logentry"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
)

// announcer passes what happens to leases to the log and to the listeners. The loop owns its fields.
type announcer struct {
	*instance
	table     *table
	diagnosis *diagnosis
	hub       *hub
	listened  listened
	events    []Event // announced, and not published yet
	failed    failedLast
}

var tellEvents = map[core.TellKind]EventKind{
	core.TellAcquired: EventAcquired, core.TellRenewed: EventRenewed, core.TellUncertain: EventUncertain,
	core.TellLost: EventLost, core.TellReleased: EventReleased, core.TellRefused: EventAcquireFailed,
	core.TellReleaseFailed: EventReleaseFailed, core.TellYield: EventYield,
	core.TellKept: EventKept,
}

// failedLast has, for each lease, the last failure to acquire or renew it after the time since.
type failedLast struct {
	since  core.Time
	leases map[string]failedAs
}

type failedAs struct {
	kind         core.TellKind
	cause, owner string
}

// repeats reports whether t repeats the last failure about its lease, which was announced less than interval ago.
func (f *failedLast) repeats(t *core.Tell, interval time.Duration) bool {
	if t.Kind != core.TellRefused && t.Kind != core.TellUncertain {
		delete(f.leases, t.ID)
		return false
	}
	if f.leases == nil || t.At-f.since >= core.Time(interval) {
		f.since, f.leases = t.At, map[string]failedAs{}
	}
	now := failedAs{t.Kind, logentry.Cause(t), t.Owner}
	last := f.leases[t.ID]
	f.leases[t.ID] = now
	return last == now
}

// announce logs one tell and, if it concerns a lease, adds it to the event stream.
func (a *announcer) announce(t *core.Tell, h *Lease) {
	repeated := a.failed.repeats(t, a.cfg.RenewInterval)
	a.record(t, repeated, h)
	kind, isLease := tellEvents[t.Kind]
	routine := t.Kind == core.TellRenewed && !t.Doubted
	if !isLease || a.listened == nobody || routine && a.listened == ofChanges {
		return
	}
	e := Event{Kind: kind, Name: t.ID, Fence: t.Fence, At: a.time(t.At), Reason: logentry.Reason(t),
		Cause: logentry.Cause(t), Owner: t.Owner, Lease: h, Repeated: repeated, routine: routine}
	if t.Until != 0 {
		e.Until = a.time(t.Until)
	}
	if v := t.Vacant; v != nil {
		e.VacantSince, e.Owner, e.GivenBack = a.time(v.Since), v.Owner, v.GivenBack
	}
	a.events = append(a.events, e)
}

// record logs one tell. A repeated failure has the level debug.
func (a *announcer) record(t *core.Tell, repeated bool, h *Lease) {
	level, message, ok := logentry.Head(t)
	at := zapcore.Level(level)
	switch {
	case t.Kind == core.TellRenewed:
		at = *a.cfg.RenewLogLevel
	case repeated:
		at = zap.DebugLevel
	}
	if !ok || !a.log.Core().Enabled(at) {
		return
	}
	d := a.diagnosis
	if t.Kind == core.TellEpoch && t.Wait > 0 && d.doubt != "" && !d.met {
		message = unproven(d.doubt) + "; it grants nothing before its quarantine ends; " + declare
	}
	tell := *t
	switch {
	case t.Kind == core.TellLost && t.Cause == core.CauseExpired:
		tell.Text = words(d.renewals().err)
	case t.Kind == core.TellSilent || t.Kind == core.TellUncertain && t.Cause == core.CauseNoAnswer:
		tell.Text = d.unreached(t.Text)
	}
	if h != nil && (t.Kind == core.TellLost || t.Kind == core.TellReleased) {
		tell.Until = core.Time(h.until.Load())
	}
	if tell.UntilWall = 0; tell.Until != 0 {
		tell.UntilWall = a.time(tell.Until).UnixNano()
	}
	a.log.Later(at, a.time(t.At), message, func() []zap.Field { return a.fields(&tell) })
}

// publish passes the announced events to all listeners; routine events go only to listeners that want all events. publish batches
// the events, because each call of Config.Notify costs a goroutine.
func (a *announcer) publish() {
	if len(a.events) == 0 {
		return
	}
	callback.Tell(a.log.Calls, "Config.Notify", a.cfg.Notify, a.events...)
	for _, l := range a.hub.current() {
		for i := range a.events {
			if !a.events[i].routine || !l.changes {
				l.Put(a.events[i])
			}
		}
	}
	clear(a.events) // so that the slice keeps no finished term in memory
	a.events = a.events[:0]
}

// listened says which events have a listener. The loop does not build other
// events.
type listened uint8

const (
	nobody    listened = iota
	ofChanges          // only SubscribeChanges: no routine events
	ofAll
)

func (a *announcer) whoListens() listened {
	if a.cfg.Notify != nil {
		return ofAll
	}
	to := nobody
	for _, l := range a.hub.current() {
		if !l.changes {
			return ofAll
		}
		to = ofChanges
	}
	return to
}

var attempts = map[core.OpKind]EventKind{
	core.OpRenew: EventRenewing, core.OpReassert: EventRenewing, core.OpAcquire: EventAcquiring,
}

// attempt announces an attempt to acquire or renew a lease before the request is sent.
func (a *announcer) attempt(op *core.Op) {
	kind, ok := attempts[op.Kind]
	if !ok || a.whoListens() != ofAll {
		return
	}
	for _, it := range op.Items {
		e := Event{Kind: kind, Name: it.ID, Fence: it.Fence, At: a.time(op.Sent), routine: true}
		if kind == EventRenewing {
			e.Lease = a.table.get(it.ID)
		}
		a.events = append(a.events, e)
	}
	a.publish()
}

func (a *announcer) fields(t *core.Tell) []zap.Field {
	var room [8]logentry.Field
	fields := logentry.Fields(room[:0], a.cfg.InstanceID, t)
	if t.Kind == core.TellEpoch && t.Wait > 0 {
		fields = append(fields, logentry.Field{Key: "until", Text: stamp(a.time(t.At + core.Time(t.Wait)))})
	}
	return zaplog.Append(make([]zap.Field, 0, len(fields)), fields)
}
