package intent

import "github.com/leasestorm/leasestorm/internal/core"

// Machine applies the rules of one worker. Not safe for concurrent use.
type Machine struct {
	cfg      Config
	now      core.Time
	sessions map[string]*session
	leases   leases
	slots    slots
	turns    turns
	works    int // pipelines that were launched and have not returned
	draining bool
	drainBy  core.Time // when a drain ends, even if it is not complete
	drained  bool
	timers   timers
	out      []Effect
}

// New returns a Machine without sessions.
func New(cfg Config) *Machine {
	return &Machine{
		cfg: cfg, sessions: map[string]*session{}, leases: leases{}, slots: newSlots(cfg.Slots), turns: turns{limit: cfg.Starting},
	}
}

// Has reports whether the machine has a session.
func (m *Machine) Has(session string) bool { return m.sessions[session] != nil }

// Running returns how many sessions run and have RUNNING in their record.
func (m *Machine) Running() (n int) {
	for _, s := range m.slots.mine { // a running session has a slot
		if s != nil && s.phase == running {
			n++
		}
	}
	return n
}

// Takes reports whether the machine accepts starts. After EvDrain it leaves them to other workers.
func (m *Machine) Takes() bool { return !m.draining }

// Idle reports whether the machine wants more starts: it accepts them, and none waits for its turn.
func (m *Machine) Idle() bool { return m.Takes() && len(m.turns.line) == 0 }

// Next returns when the machine needs an EvTick; zero: never.
func (m *Machine) Next() core.Time {
	at, ok := m.timers.first()
	switch {
	case m.drained:
		return 0
	case !ok:
		return m.drainBy
	case m.draining:
		return min(at, m.drainBy)
	}
	return at
}

// Step takes one event and returns its effects, which are valid until the next Step.
func (m *Machine) Step(e Event) []Effect {
	m.out = m.out[:0]
	if m.drained {
		return nil
	}
	m.now = max(m.now, e.Now)
	for s := m.timers.fire(m.now); s != nil; s = m.timers.fire(m.now) {
		m.due(s)
	}
	switch e.Kind {
	case EvEntry:
		m.entry(&e.Entry)
	case EvRenewed:
		m.leases.renewed(&e)
	case EvLost:
		if s := m.leases.lost(&e); s != nil && !s.lost { // a second loss must not restart the timeout
			s.lost = true
			m.interrupt(s)
		}
	case EvCheck:
		m.check()
	case EvDrain:
		m.drain()
	case EvTick:
	default:
		if s := m.sessions[e.Session]; s != nil {
			m.answer(s, &e)
		}
	}
	for s := m.turns.next(); s != nil; s = m.turns.next() {
		m.begin(s)
	}
	if m.draining && (len(m.sessions) == 0 || m.now >= m.drainBy) {
		m.drained = true
		m.do(Effect{Kind: Drained, Left: len(m.sessions), Stuck: m.works > 0})
	}
	return m.out
}

func (m *Machine) do(e Effect) { m.out = append(m.out, e) }

func (m *Machine) answer(s *session, e *Event) {
	switch e.Kind {
	case EvLease:
		switch s.phase {
		case service:
			m.serviceAnswered(s, e)
		case tuner:
			m.tunerAnswered(s, e)
		default: // the session does not wait for it any more
		}
	case EvWritten:
		m.written(s, e.Wrote)
	case EvLaunched:
		m.launched(s, e)
	case EvReturned:
		m.returned(s, e.Text)
	case EvReleased:
		if s.phase == releasing {
			m.released(s)
		}
	case EvStop:
		s.stop = true
		m.interrupt(s)
	}
}

// entry accepts a start. A second delivery of it is ignored.
func (m *Machine) entry(e *Entry) {
	switch {
	case m.draining, m.sessions[e.Session] != nil:
		return // the bus delivers an unacknowledged entry again
	case m.cfg.MaxTries > 0 && e.Tries > m.cfg.MaxTries:
		m.do(Effect{Kind: Bury, Session: e.Session, Ack: e.ID, Reason: PipelineFailed, Fence: e.Fence,
			Text: "delivered too often: every worker that took it ended before it was done"})
		return
	}
	s := &session{entry: *e, slot: -1, pair: pair{fence: e.Fence}}
	m.sessions[e.Session] = s
	m.turns.queue(s)
}

func (m *Machine) begin(s *session) {
	s.lost = false
	s.phase = service // even if s is to be stopped, because the API may hold the lease for it
	m.do(Effect{Kind: Acquire, Session: s.entry.Session, Lease: m.cfg.Resource + ":" + s.entry.Service})
}

func (m *Machine) sleep(s *session, d int64, next phase) {
	s.phase, s.next = asleep, next
	m.timers.set(s, m.now+core.Time(max(d, m.cfg.Retry)))
}

// serviceAnswered handles an attempt for the service lease. If the API holds the lease for this session, the worker takes it over. With
// the lease, the session goes on to find a slot.
func (m *Machine) serviceAnswered(s *session, e *Event) {
	if e.Outcome == Granted {
		m.leases.take(s, &s.service, e)
	}
	if e.Outcome == Held && e.Owner == SessionOwner(s.entry.Session) {
		m.do(Effect{Kind: Acquire, Session: s.entry.Session, Lease: e.Lease, From: e.Owner})
		return
	}
	if m.interrupted(s) {
		return
	}
	switch e.Outcome {
	case Granted:
		m.seek(s)
	case Held:
		m.serviceHeld(s, e)
	case Refused:
		m.end(s, PipelineFailed, e.Text)
	default: // quarantine, or no answer
		m.sleep(s, e.Wait, service)
	}
}

// serviceHeld decides whether the service is busy, or an earlier worker of this session holds its lease.
func (m *Machine) serviceHeld(s *session, e *Event) {
	again := e.Owner != "" && (e.Owner == s.entry.From || e.Owner == s.entry.Owner)
	switch {
	case again && !s.waited:
		s.waited = true
		m.sleep(s, e.Wait, service)
	case again && e.Owner == s.entry.Owner:
		m.forget(s) // the earlier worker lives; if it does not finish, the bus delivers the entry again
	default:
		m.end(s, LeaseBusy, "the "+m.cfg.Resource+" is in use")
	}
}

func (m *Machine) seek(s *session) {
	s.slot, s.began = -1, m.now
	m.trySlot(s)
}

func (m *Machine) trySlot(s *session) {
	if i := m.slots.next(s.began, m.now); i >= 0 {
		s.phase = tuner
		m.slots.try(i, s)
		m.do(Effect{Kind: Acquire, Session: s.entry.Session, Lease: m.cfg.Slot + ":" + m.cfg.Slots[i]})
		return
	}
	s.slot = -1
	if m.slots.unsettled() { // a slot may become free soon
		s.awaits = true
		m.sleep(s, 0, tuner)
		return
	}
	m.end(s, NoSlot, "no slot is free")
}

func (m *Machine) tunerAnswered(s *session, e *Event) {
	slot := s.slot
	if e.Outcome == Granted {
		m.leases.take(s, &s.tuner, e)
	} else {
		m.slots.free(s)
	}
	if m.interrupted(s) {
		return
	}
	switch e.Outcome {
	case Granted:
		m.slots.ours(slot)
		s.phase = starting
		m.write(s)
	case Held, Refused:
		m.slots.held(slot, m.now, m.now+core.Time(max(e.Wait, m.cfg.Retry)))
		m.trySlot(s)
	default:
		m.sleep(s, e.Wait, tuner)
	}
}
