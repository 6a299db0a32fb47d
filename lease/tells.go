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

// carry carries out the core's tells: first on the trust table, then for all listeners. After the first pass nobody believes in a
// finished term, before any listener runs.
func (s *shell) carry(tells []core.Tell) {
	if len(tells) == 0 {
		return
	}
	s.holds = s.holds[:0]
	s.counts.mu.Lock()
	for i := range tells {
		s.holds = append(s.holds, s.trust(&tells[i]))
	}
	s.counts.mu.Unlock()
	s.table.publish()
	s.listened = s.whoListens()
	over := s.now().Mono // the belief ended a moment ago in the table, not when the step began
	settled := 0
	for i := range tells {
		ends := false
		switch tells[i].Kind {
		case core.TellUncertain, core.TellLost, core.TellReleased:
			tells[i].At, ends = over, true
		case core.TellYield:
			ends = true
		}
		s.announce(&tells[i], s.holds[i])
		if !ends && i < len(tells)-1 { // a context that ends does not wait until a listener has received later events
			continue
		}
		s.publish()
		for ; settled <= i; settled++ {
			s.settle(&tells[settled], s.holds[settled])
		}
	}
	clear(s.holds) // do not keep terms alive
}

func (s *shell) trust(t *core.Tell) *Lease {
	switch t.Kind {
	case core.TellAcquired:
		h := &Lease{s: s, name: t.ID, fence: t.Fence, acquiredAt: t.At}
		h.until.Store(int64(t.Until))
		h.believe(h.belief().After(t))
		s.table.stage(t.ID)[t.ID] = h
		return h
	case core.TellRenewed:
		h := s.believe(t)
		if h != nil {
			h.renewedAt.Store(int64(t.At))
		}
		return h
	case core.TellUncertain:
		return s.believe(t)
	case core.TellYield:
		h := s.table.current(t.ID)
		if h != nil {
			h.yields++
			h.yielding.Store(h.yields)
		}
		return h
	case core.TellKept:
		h := s.table.current(t.ID)
		if h != nil {
			h.yielding.Store(0)
		}
		return h
	case core.TellLost, core.TellReleased:
		h := s.believe(t)
		if h != nil {
			delete(s.table.stage(t.ID), t.ID)
		}
		return h
	default:
		return nil
	}
}

// believe applies a tell to the belief in its term, and returns the term.
func (s *shell) believe(t *core.Tell) *Lease {
	h := s.table.current(t.ID)
	if h == nil {
		return nil
	}
	if t.Kind == core.TellRenewed {
		s.counts.renewed(h, t)
	}
	if t.Until != 0 {
		h.until.Store(int64(t.Until))
	}
	h.believe(h.belief().After(t))
	return h
}

// settle answers the callers that wait for a tell.
func (s *shell) settle(t *core.Tell, h *Lease) {
	switch t.Kind {
	case core.TellAcquired:
		s.acquired(h)
	case core.TellRefused:
		s.refused(t)
	case core.TellYield:
		s.yield(h, t)
	case core.TellLost:
		if h != nil && t.Cause == core.CauseExpired {
			h.finish(h.expiredError(logentry.Reason(t)))
		} else if h != nil {
			h.finish(h.lostError(logentry.Reason(t)))
		}
		s.resolveRelease(t.ID, nil)
		s.wantAgain(t.ID)
	case core.TellReleased:
		if h != nil {
			h.finish(h.lostError("released"))
		}
		s.wantAgain(t.ID)
	case core.TellReleaseFailed:
		s.resolveRelease(t.ID, s.failure(core.OpRelease).noResult(core.OpRelease, "release", t.ID, t.Text))
	case core.TellSilent:
		s.learn(func() { s.silentSince = t.At })
	case core.TellHeard:
		s.learn(func() { s.silentSince = 0 })
	case core.TellEpoch:
		s.learn(func() {
			if s.met {
				s.doubt = ""
			}
			s.met, s.began = true, t.Cause
		})
	case core.TellOutside:
		s.learn(func() { s.agreed = t.Wait })
	case core.TellWithdrawn:
		s.learn(func() { s.withdrawn = t.At + core.Time(t.Wait) })
	case core.TellDrained:
		s.allGiven = true
	}
}

// yield requests the end of the work. If nobody is to release the lease, it releases the lease at once: IsOwned is false already.
func (s *shell) yield(h *Lease, t *core.Tell) {
	if h == nil {
		return
	}
	switch {
	case !h.given:
	case t.Cause == core.CauseDrain:
		h.finish(ErrStopped)
	case t.Cause == core.CauseRequested:
		h.finish(h.lostError("asked back by " + t.Owner))
	}
	if !h.given && s.cfg.Notify == nil {
		s.todo = append(s.todo, core.Event{Kind: core.EvDrop, ID: h.name, Cause: t.Cause})
	}
}

var tellEvents = map[core.TellKind]EventKind{
	core.TellAcquired: EventAcquired, core.TellRenewed: EventRenewed, core.TellUncertain: EventUncertain,
	core.TellLost: EventLost, core.TellReleased: EventReleased, core.TellRefused: EventAcquireFailed,
	core.TellReleaseFailed: EventReleaseFailed, core.TellYield: EventYield,
	core.TellKept: EventKept,
}

// failedLast has the last failure to acquire or renew each lease, of those since the time since.
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
func (s *shell) announce(t *core.Tell, h *Lease) {
	repeated := s.failed.repeats(t, s.cfg.RenewInterval)
	if level, message, ok := logentry.Head(t); ok {
		at := zapcore.Level(level)
		switch {
		case t.Kind == core.TellRenewed:
			at = *s.cfg.RenewLogLevel
		case repeated:
			at = zap.DebugLevel
		}
		if s.log.Core().Enabled(at) {
			if t.Kind == core.TellEpoch && t.Wait > 0 && s.doubt != "" && !s.met {
				message = unproven(s.doubt) + "; it grants nothing before its quarantine ends; " + declare
			}
			entry := logEntry{at: s.time(t.At), message: message, tell: *t}
			switch {
			case t.Kind == core.TellLost && t.Cause == core.CauseExpired:
				entry.tell.Text = s.unrenewed()
			case t.Kind == core.TellSilent || t.Kind == core.TellUncertain && t.Cause == core.CauseNoAnswer:
				entry.tell.Text = s.unreached(t.Text)
			}
			s.log.Later(at, entry.at, entry.message, func() []zap.Field { return s.fields(&entry) })
		}
	}
	kind, isLease := tellEvents[t.Kind]
	routine := t.Kind == core.TellRenewed && !t.Doubted
	if !isLease || s.listened == nobody || routine && s.listened == ofChanges {
		return
	}
	e := Event{Kind: kind, Name: t.ID, Fence: t.Fence, At: s.time(t.At), Reason: logentry.Reason(t),
		Cause: logentry.Cause(t), Owner: t.Owner, Lease: h, Repeated: repeated, routine: routine}
	if t.Until != 0 {
		e.Until = s.time(t.Until)
	}
	if v := t.Vacant; v != nil {
		e.VacantSince, e.Owner, e.GivenBack = s.time(v.Since), v.Owner, v.GivenBack
	}
	s.events = append(s.events, e)
}

// publish passes the announced events to all listeners, and the routine ones to those that want all. It batches them, because each call
// of Config.Notify costs a goroutine.
func (s *shell) publish() {
	if len(s.events) == 0 {
		return
	}
	callback.Tell(s.log.Calls, "Config.Notify", s.cfg.Notify, s.events...)
	for _, l := range s.hub.current() {
		for i := range s.events {
			if !s.events[i].routine || !l.changes {
				l.Put(s.events[i])
			}
		}
	}
	clear(s.events) // do not keep terms alive
	s.events = s.events[:0]
}

// listened says which events have listeners. Others are not built.
type listened uint8

const (
	nobody    listened = iota
	ofChanges          // only SubscribeChanges: no routine events
	ofAll
)

func (s *shell) whoListens() listened {
	if s.cfg.Notify != nil {
		return ofAll
	}
	to := nobody
	for _, l := range s.hub.current() {
		if !l.changes {
			return ofAll
		}
		to = ofChanges
	}
	return to
}

// attempting records that an attempt to renew is about to be sent: belief ends at its deadline unless it is answered.
func (s *shell) attempting(op *core.Op) {
	for i := range op.Items {
		if h := s.table.get(op.Items[i].ID); h != nil {
			h.believe(h.belief().During(op))
		}
	}
}

var attempts = map[core.OpKind]EventKind{
	core.OpRenew: EventRenewing, core.OpReassert: EventRenewing, core.OpAcquire: EventAcquiring,
}

// announceAttempt announces an attempt to hold a lease before it is sent.
func (s *shell) announceAttempt(op *core.Op) {
	kind, ok := attempts[op.Kind]
	if !ok || s.whoListens() != ofAll {
		return
	}
	for _, it := range op.Items {
		e := Event{Kind: kind, Name: it.ID, Fence: it.Fence, At: s.time(op.Sent), routine: true}
		if kind == EventRenewing {
			e.Lease = s.table.get(it.ID)
		}
		s.events = append(s.events, e)
	}
	s.publish()
}

type logEntry struct {
	at      time.Time
	message string
	tell    core.Tell
}

func (s *shell) fields(e *logEntry) []zap.Field {
	var room [8]logentry.Field
	fields := logentry.Fields(room[:0], s.cfg.InstanceID, &e.tell)
	switch {
	case e.tell.Kind == core.TellEpoch && e.tell.Wait > 0:
		fields = append(fields, logentry.Field{Key: "until", Text: stamp(e.at.Add(time.Duration(e.tell.Wait)))})
	case e.tell.Kind == core.TellUncertain:
		fields = append(fields, logentry.Field{Key: "until", Text: stamp(s.time(e.tell.Until))})
	}
	return zaplog.Append(make([]zap.Field, 0, len(fields)), fields)
}

func noticeSize(n *core.Notice) (size int) {
	for _, words := range [][]string{{n.From}, n.IDs, n.Peers} {
		for _, w := range words {
			size += 16 + len(w)
		}
	}
	return size
}
