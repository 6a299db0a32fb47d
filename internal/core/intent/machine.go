package intent

import (
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
)

type phase uint8

const (
	queued    phase = iota // waits for its turn
	asleep                 // waits for its timer, then goes on with next
	service                // an attempt for the service lease is under way
	tuner                  // an attempt for a slot is under way
	starting               // STARTING is being written
	launching              // the pipeline is being started
	up                     // the pipeline runs and RUNNING is being written
	running                // the pipeline runs and RUNNING has been written
	halting                // the pipeline was asked to end, or will be when it has started
	releasing              // leases are being given back
	ending                 // ENDED is being written
	stranded               // ENDED was written and the pipeline has not returned
)

type after uint8

const (
	writeEnded after = iota
	startOver        // start again
	leaveIt          // write nothing: another worker has the session, or should start it because this one stops
	buryIt           // the session has no record: make its entry a dead letter
)

type term struct {
	name  string
	fence int64 // 0: not held
	until core.Time
}

type session struct {
	entry Entry
	phase phase
	next  phase // asleep: the next phase
	gen   uint32

	service, tuner term
	fence, tfence  int64     // of the last terms, for writes
	slot           int       // of tuner, or being tried; -1 none
	began          core.Time // when it began to try slots

	asked  bool  // a write is under way
	sent   State // of the last write
	acked  bool  // its entry is acknowledged
	live   bool  // its pipeline was launched and has not returned, or may still start
	waited bool  // it has waited for an earlier worker's lease to expire
	awaits bool  // it waits for the results of other sessions' slots
	stop   bool  // a stop was requested
	lost   bool  // a lease was lost
	turn   bool  // it counts as being started
	after  after
	reason Reason // why it ends, once that is known
	text   string
}

// Machine applies the rules of one worker. Not safe for concurrent use.
type Machine struct {
	cfg      Config
	now      core.Time
	sessions map[string]*session
	leases   map[string]*session // held leases, by name
	mine     []*session          // by slot: session of this worker that has or tries it
	hint     []core.Time         // by slot: until when another worker is known to have it
	hinted   []core.Time         // by slot: when it was last found to be another worker's
	line     []*session          // queued
	busy     int                 // sessions that are being started
	running  int                 // sessions in that phase
	works    int                 // pipelines that were launched and have not returned
	draining bool
	drainBy  core.Time // when a drain ends, even if it is not complete
	drained  bool
	timers   timers
	out      []Effect
}

// New returns a Machine without sessions.
func New(cfg Config) *Machine {
	n := len(cfg.Slots)
	return &Machine{
		cfg: cfg, sessions: map[string]*session{}, leases: map[string]*session{},
		mine: make([]*session, n), hint: make([]core.Time, n), hinted: slices.Repeat([]core.Time{never}, n),
	}
}

// never is before all time.
const never = core.Time(-1)

// Len returns how many sessions the machine has.
func (m *Machine) Len() int { return len(m.sessions) }

// Has reports whether the machine has a session.
func (m *Machine) Has(session string) bool { return m.sessions[session] != nil }

// Running returns how many sessions run and have RUNNING in their record.
func (m *Machine) Running() int { return m.running }

// Takes reports whether the machine accepts starts. After EvDrain it leaves them to other workers.
func (m *Machine) Takes() bool { return !m.draining }

// Idle reports whether the machine wants more starts: it accepts them, and none waits for its turn.
func (m *Machine) Idle() bool { return m.Takes() && len(m.line) == 0 }

// Step takes one event and returns its effects, which are valid until the next Step.
func (m *Machine) Step(e Event) []Effect {
	m.out = m.out[:0]
	if m.drained {
		return nil
	}
	m.now = max(m.now, e.Now)
	m.wake()
	switch e.Kind {
	case EvEntry:
		m.entry(&e.Entry)
	case EvRenewed:
		m.renewed(&e)
	case EvLost:
		m.lostLease(&e)
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
	m.admit()
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
	s := &session{entry: *e, slot: -1, fence: e.Fence}
	m.sessions[e.Session] = s
	m.line = append(m.line, s)
}

func (m *Machine) admit() {
	for len(m.line) > 0 && (m.cfg.Starting == 0 || m.busy < m.cfg.Starting) {
		s := m.line[0]
		m.line[0] = nil
		m.line = m.line[1:]
		if s.phase != queued || m.sessions[s.entry.Session] != s {
			continue
		}
		s.turn = true
		m.busy++
		m.begin(s)
	}
}

func (m *Machine) begin(s *session) {
	s.lost = false
	s.phase = service // even if s is to be stopped, because the API may hold the lease for it
	m.do(Effect{Kind: Acquire, Session: s.entry.Session, Lease: m.cfg.Resource + ":" + s.entry.Service})
}

func (m *Machine) sleep(s *session, d int64, next phase) {
	s.phase, s.next = asleep, next
	m.arm(s, m.now+core.Time(max(d, m.cfg.Retry)))
}

func (m *Machine) take(s *session, t *term, e *Event) {
	*t = term{name: e.Lease, fence: e.Fence, until: e.Until}
	m.leases[e.Lease] = s
	s.fence, s.tfence = max(s.fence, s.service.fence), s.tuner.fence
}

// serviceAnswered handles an attempt for the service lease. If the API holds the lease for this session, the worker takes it over. With
// the lease, the session goes on to find a slot.
func (m *Machine) serviceAnswered(s *session, e *Event) {
	if e.Outcome == Granted {
		m.take(s, &s.service, e)
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

// trySlot tries the next slot that no session of this worker has and that was not found taken since s.began. Slots that another worker is
// known to have come last.
func (m *Machine) trySlot(s *session) {
	if i := m.nextSlot(s.began); i >= 0 {
		s.slot, s.phase = i, tuner
		m.mine[i] = s
		m.do(Effect{Kind: Acquire, Session: s.entry.Session, Lease: m.cfg.Slot + ":" + m.cfg.Slots[i]})
		return
	}
	s.slot = -1
	if m.unsettled() { // a slot may become free soon
		s.awaits = true
		m.sleep(s, 0, tuner)
		return
	}
	m.end(s, NoSlot, "no slot is free")
}

// nextSlot returns the next slot to try for a session that began at began, -1 if there is none.
func (m *Machine) nextSlot(began core.Time) int {
	next := -1
	for i := range m.cfg.Slots {
		if m.mine[i] != nil || m.hinted[i] >= began {
			continue
		}
		if m.hint[i] <= m.now {
			return i
		}
		if next < 0 {
			next = i
		}
	}
	return next
}

// unsettled reports whether another session's attempt at a slot is under way and may fail, or a slot is being given back. Redis may have
// freed the latter already, and a client may rely on that.
func (m *Machine) unsettled() bool {
	return slices.ContainsFunc(m.mine, func(s *session) bool { return s != nil && (s.phase == tuner || s.phase == releasing) })
}

func (m *Machine) tunerAnswered(s *session, e *Event) {
	slot := s.slot
	if e.Outcome == Granted {
		m.take(s, &s.tuner, e)
	} else {
		m.mine[slot] = nil
	}
	if m.interrupted(s) {
		return
	}
	switch e.Outcome {
	case Granted:
		m.hint[slot], m.hinted[slot] = 0, never
		s.phase = starting
		m.write(s)
	case Held, Refused:
		m.hint[slot], m.hinted[slot] = m.now+core.Time(max(e.Wait, m.cfg.Retry)), m.now
		m.trySlot(s)
	default:
		s.slot = -1
		m.sleep(s, e.Wait, tuner)
	}
}
