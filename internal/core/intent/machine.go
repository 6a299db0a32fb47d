package intent

import (
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
)

type phase uint8

const (
	queued    phase = iota // waits for its turn
	asleep                 // waits for time to pass, then goes on with next
	service                // an attempt for the service lease is under way
	tuner                  // an attempt for a slot is under way
	starting               // STARTING is being written
	launching              // the pipeline is being started
	up                     // the pipeline runs and RUNNING is being written
	running                // and has been
	halting                // the pipeline was asked to end, or will be when it has started
	releasing              // leases are being given back
	ending                 // ENDED is being written
	stranded               // ENDED was written and the pipeline has not returned
)

// after is what follows when the leases of a session were given back.
type after uint8

const (
	writeEnded after = iota
	startOver        // the start begins anew
	leaveIt          // nothing is written: it is another's, or the worker stops and another shall start it
	buryIt           // it has no record: the entry is a dead letter
)

// term is one lease of a session.
type term struct {
	name  string
	fence int64 // 0: not held
	until core.Time
}

// session is one session in the hands of this worker.
type session struct {
	entry Entry
	phase phase
	next  phase // asleep: what comes then
	gen   uint32

	service, tuner term
	fence, tfence  int64 // of the last terms: what is written stands on them
	slot           int   // of tuner, or being tried; -1 none
	began          core.Time

	asked  bool  // a write is under way
	sent   State // by the last write
	acked  bool  // its entry is done with
	live   bool  // its pipeline was launched and has not returned, or may yet be
	waited bool  // it has slept until an earlier attempt's lease ran out
	awaits bool  // it sleeps until what others do with slots is answered
	stop   bool  // somebody asked for its end
	lost   bool  // a lease was lost
	turn   bool  // it counts as being started
	after  after
	reason Reason // why it ends, once that is known
	text   string
}

// Machine is the rules of one worker. Not safe for concurrent use.
type Machine struct {
	cfg      Config
	now      core.Time
	sessions map[string]*session
	leases   map[string]*session // held, by name
	mine     []*session          // by slot: who has it or tries it
	hint     []core.Time         // by slot: until when it is known to be another's
	hinted   []core.Time         // by slot: when it was last found to be another's
	line     []*session          // queued
	busy     int                 // sessions that are being started
	running  int                 // sessions in that phase
	works    int                 // pipelines that were launched and have not returned
	draining bool
	drainBy  core.Time // when a drain ends, whatever is left
	drained  bool
	timers   timers
	out      []Effect
}

// New returns a machine that knows of no session.
func New(cfg Config) *Machine {
	n := len(cfg.Slots)
	return &Machine{
		cfg: cfg, sessions: map[string]*session{}, leases: map[string]*session{},
		mine: make([]*session, n), hint: make([]core.Time, n), hinted: slices.Repeat([]core.Time{never}, n),
	}
}

// never is before all time.
const never = core.Time(-1)

// Len returns how many sessions are in the machine's hands.
func (m *Machine) Len() int { return len(m.sessions) }

// Has reports whether a session is in the machine's hands.
func (m *Machine) Has(session string) bool { return m.sessions[session] != nil }

// Running returns how many sessions run and have been written so.
func (m *Machine) Running() int { return m.running }

// Takes reports whether starts may be taken into hand: from a drain on they are left to other workers.
func (m *Machine) Takes() bool { return !m.draining }

// Idle reports whether more starts are wanted: none that is in hand waits for its turn.
func (m *Machine) Idle() bool { return m.Takes() && len(m.line) == 0 }

// Step tells the machine one thing and returns what follows. The result is valid until the next Step.
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
		default: // it is not waited for any more
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

// entry takes a start into hand. One that is delivered twice is the same start.
func (m *Machine) entry(e *Entry) {
	switch {
	case m.draining, m.sessions[e.Session] != nil:
		return // what is not acknowledged is delivered again
	case m.cfg.MaxTries > 0 && e.Tries > m.cfg.MaxTries:
		m.do(Effect{Kind: Bury, Session: e.Session, Ack: e.ID, Reason: PipelineFailed, Fence: e.Fence,
			Text: "delivered too often: every worker that took it ended before it was done"})
		return
	}
	s := &session{entry: *e, slot: -1, fence: e.Fence}
	m.sessions[e.Session] = s
	m.line = append(m.line, s)
}

// admit begins the starts whose turn has come.
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

// begin takes the leases from the start.
func (m *Machine) begin(s *session) {
	s.lost = false
	s.phase = service // also of one that is to be stopped: the API may hold the lease for it
	m.do(Effect{Kind: Acquire, Session: s.entry.Session, Lease: ServiceLease(s.entry.Service)})
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

// serviceAnswered takes the service lease, over from the API if that holds it for this session, and goes on to a slot.
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

// serviceHeld decides whether the service is busy, or held for this very session by a worker that had it before.
func (m *Machine) serviceHeld(s *session, e *Event) {
	again := e.Owner != "" && (e.Owner == s.entry.From || e.Owner == s.entry.Owner)
	switch {
	case again && !s.waited:
		s.waited = true
		m.sleep(s, e.Wait, service)
	case again && e.Owner == s.entry.Owner:
		m.forget(s) // the worker that had it lives; if it does not finish, the bus delivers the entry again
	default:
		m.end(s, LeaseBusy, "the service is in use")
	}
}

// seek tries the first slot that may be free.
func (m *Machine) seek(s *session) {
	s.slot, s.began = -1, m.now
	m.trySlot(s)
}

// trySlot tries the next slot that nobody here has and that was not found taken since s began: first those that are not known
// to be another's, then the others. A slot that was given back here meanwhile is one of them.
func (m *Machine) trySlot(s *session) {
	if i := m.nextSlot(s.began); i >= 0 {
		s.slot, s.phase = i, tuner
		m.mine[i] = s
		m.do(Effect{Kind: Acquire, Session: s.entry.Session, Lease: TunerLease(m.cfg.Slots[i])})
		return
	}
	s.slot = -1
	if m.unsettled() { // what another start here is trying may turn out not to be got
		s.awaits = true
		m.sleep(s, 0, tuner)
		return
	}
	m.end(s, NoTuner, "no slot is free")
}

// nextSlot returns the slot to be tried by who began then, -1 if there is none.
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

// unsettled reports whether an attempt at a slot is under way, or one is being given back: Redis may have it free already, and
// who asked for the end of what used it may have been told so.
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
