package intent

import (
	"maps"
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
)

func (m *Machine) write(s *session) {
	e := Effect{Kind: Write, Session: s.entry.Session, Fence: s.fence}
	switch s.phase {
	case starting:
		e.State = Starting
	case up:
		e.State = Running
	default:
		e.State, e.Reason, e.Text = Ended, s.reason, s.text
	}
	if s.phase != ending {
		e.Slot, e.SlotFence = m.cfg.Slots[s.slot], s.tfence
	}
	if s.phase != starting {
		e.Ack = s.entry.ID
	}
	s.asked, s.sent = true, e.State
	m.do(e)
}

func (m *Machine) written(s *session, w Wrote) {
	s.asked = false
	switch {
	case s.phase == starting:
		m.startingWritten(s, w)
	case s.phase == up:
		m.runningWritten(s, w)
	case s.sent == Ended && w == WroteFailed:
		m.sleep(s, 0, ending)
	case s.sent == Ended && w == WroteMissing: // the entry is still on the bus, and would be delivered forever
		s.after = buryIt
		m.proceed(s)
	case s.sent == Ended:
		m.gone(s)
	default: // the answer to RUNNING came while the pipeline was being ended
		s.acked = s.acked || w == WroteOK || w == WroteStop
		s.disown(w)
		if s.phase == ending {
			m.proceed(s)
		}
	}
}

func (m *Machine) startingWritten(s *session, w Wrote) {
	s.disown(w)
	s.stop = s.stop || w == WroteStop
	switch {
	case w == WroteOver || w == WroteMissing:
		m.giveBack(s)
	case m.interrupted(s):
	case w == WroteFailed:
		m.sleep(s, 0, starting)
	default:
		m.launch(s)
	}
}

// launch starts the pipeline, or waits for renewals if the trust in a lease ends too soon.
func (m *Machine) launch(s *session) {
	if m.now >= m.deadline(s) {
		m.sleep(s, 0, launching)
		return
	}
	s.phase = launching
	m.works++
	m.do(Effect{Kind: Launch, Session: s.entry.Session, Slot: m.cfg.Slots[s.slot], Fence: s.fence, SlotFence: s.tfence})
}

func (m *Machine) launched(s *session, e *Event) {
	if s.phase != launching { // the start was stopped or given up meanwhile
		if e.Launch == LaunchOK {
			m.do(Effect{Kind: Halt, Session: s.entry.Session})
		} else {
			m.returned(s, "")
		}
		return
	}
	if e.Launch != LaunchOK {
		m.ended()
	}
	switch {
	case e.Launch == LaunchOK:
		s.live = true
		s.phase = up
		m.timers.set(s, m.deadline(s))
		if !m.interrupt(s) {
			m.write(s)
		}
	case m.interrupted(s):
	case e.Launch == LaunchDoubt:
		m.sleep(s, 0, launching)
	default:
		m.end(s, PipelineFailed, e.Text)
	}
}

func (m *Machine) runningWritten(s *session, w Wrote) {
	s.disown(w)
	switch w {
	case WroteOK:
		s.acked = true
		s.phase = running
		m.turns.leave(s)
	case WroteStop:
		s.acked = true
		s.stop = true
		m.interrupt(s)
	case WroteFailed:
		m.timers.set(s, min(m.now+core.Time(m.cfg.Retry), m.deadline(s)))
	default:
		m.halt(s, LeaseLost, "its record is gone, or is another's")
	}
}

// deadline returns when the pipeline must be asked to end unless both leases are renewed.
func (m *Machine) deadline(s *session) core.Time {
	return s.until() - core.Time(m.cfg.Grace)
}

func (m *Machine) due(s *session) {
	switch s.phase {
	case asleep:
		m.resume(s)
	case up, running:
		if m.now >= m.deadline(s) {
			m.halt(s, LeaseLost, "the leases were not renewed in time")
			return
		}
		if s.phase == up && !s.asked {
			m.write(s)
		}
		m.timers.set(s, m.deadline(s))
	case launching, halting:
		m.stuck(s)
	}
}

func (m *Machine) resume(s *session) {
	s.phase = s.next
	if s.phase == ending {
		m.write(s)
		return
	}
	if m.interrupted(s) {
		return
	}
	switch s.phase {
	case service:
		m.begin(s)
	case tuner:
		if !s.awaits {
			m.seek(s)
			return
		}
		s.awaits = false // s.began stays, so that no slot is tried twice
		m.trySlot(s)
	case starting:
		m.write(s)
	case launching:
		m.launch(s)
	}
}

// interrupt ends s if a stop, a drain or a lost lease requires that and no attempt of s is under way; the answer to an attempt interrupts
// s later. It reports whether the caller must not go on with s.
func (m *Machine) interrupt(s *session) bool {
	switch s.phase {
	case queued:
		if m.draining {
			m.forget(s)
		}
		return m.draining
	case asleep:
		return s.next != ending && m.interrupted(s)
	case up, running:
		return m.interrupted(s)
	case launching: // the pipeline has the same timeout as a running one
		if s.stop {
			s.live = true
			m.awaitEnd(s, Stopped, "stopped on request")
		} else if s.lost { // the result of the launch, if it comes in time, decides whether to start over
			m.timers.set(s, m.now+core.Time(m.cfg.StopTimeout))
		}
	}
	return false
}

// interrupted ends s if it must not go on, and reports whether it did. No attempt of s may be under way.
func (m *Machine) interrupted(s *session) bool {
	switch {
	case s.live && s.lost:
		m.halt(s, LeaseLost, "a lease was lost")
	case s.live && s.stop:
		m.halt(s, Stopped, "stopped on request")
	case s.live && m.draining:
		m.halt(s, Stopped, "its worker stopped")
	case s.live:
		return false
	case s.stop && (s.entry.Fence == 0 || s.service.fence != 0): // else an earlier worker may still run it
		m.end(s, Stopped, "stopped before it ran")
	case m.draining:
		s.after = leaveIt
		m.giveBack(s)
	case s.lost:
		s.after = startOver
		m.giveBack(s)
	default:
		return false
	}
	return true
}

func (m *Machine) halt(s *session, reason Reason, text string) {
	m.awaitEnd(s, reason, text)
	m.do(Effect{Kind: Halt, Session: s.entry.Session})
}

func (m *Machine) awaitEnd(s *session, reason Reason, text string) {
	s.phase, s.reason, s.text = halting, reason, text
	m.timers.set(s, m.now+core.Time(m.cfg.StopTimeout))
}

// stuck abandons a pipeline that does not return. It may still work, so its leases are neither renewed nor released, and this worker does
// not use its slot again before the pipeline has returned.
func (m *Machine) stuck(s *session) {
	s.live = true // also while it is still being started
	m.do(Effect{Kind: Abandon, Session: s.entry.Session, Leases: m.leases.drop(s)})
	s.reason, s.text = PipelineFailed, "the pipeline did not stop in time; its leases expire"
	m.proceed(s)
}

func (m *Machine) returned(s *session, text string) {
	s.live = false
	m.ended()
	switch s.phase {
	case up, running:
		s.reason, s.text = Stopped, "the pipeline ended"
		if text != "" {
			s.reason, s.text = PipelineFailed, text
		}
		m.giveBack(s)
	case halting:
		m.giveBack(s)
	case stranded:
		m.forget(s)
	}
}

// check writes RUNNING again for all running sessions: the answer shows which records are gone.
func (m *Machine) check() {
	for _, id := range slices.Sorted(maps.Keys(m.sessions)) {
		if s := m.sessions[id]; s.phase == running && !s.asked {
			s.phase = up
			m.write(s)
		}
	}
}

func (m *Machine) end(s *session, reason Reason, text string) {
	s.reason, s.text = reason, text
	s.after = writeEnded
	m.giveBack(s)
}

// giveBack releases all leases of s; proceed follows when they are released.
func (m *Machine) giveBack(s *session) {
	m.timers.cancel(s)
	s.phase = releasing
	names := m.leases.drop(s)
	if len(names) == 0 {
		m.released(s)
		return
	}
	m.do(Effect{Kind: Release, Session: s.entry.Session, Leases: names})
}

func (m *Machine) released(s *session) {
	m.slots.free(s)
	m.proceed(s)
}

// proceed continues a session that holds no lease any more, as s.after says.
func (m *Machine) proceed(s *session) {
	switch s.after {
	case startOver:
		s.after = writeEnded
		s.lost, s.waited = false, false
		m.sleep(s, 0, service)
	case leaveIt:
		m.gone(s)
	case buryIt:
		if !s.acked {
			m.do(Effect{Kind: Bury, Session: s.entry.Session, Ack: s.entry.ID, Fence: s.fence,
				Text: "no session has this ID and this " + m.cfg.Resource})
		}
		m.gone(s)
	default:
		s.phase = ending
		if !s.asked {
			m.write(s)
		}
	}
}

// gone forgets a session; if its pipeline has not returned, only once it has.
func (m *Machine) gone(s *session) {
	if s.live {
		s.phase = stranded
		m.turns.leave(s)
		return
	}
	m.forget(s)
}

func (m *Machine) forget(s *session) {
	m.timers.cancel(s)
	m.turns.leave(s)
	m.slots.free(s)
	delete(m.sessions, s.entry.Session)
	m.do(Effect{Kind: Forget, Session: s.entry.Session})
}

// ended counts the end of a pipeline. After the last one, a drain waits only for Redis' answers.
func (m *Machine) ended() {
	if m.works--; m.draining && m.works == 0 {
		m.drainBy = m.now + core.Time(m.cfg.Patience)
	}
}

func (m *Machine) drain() {
	m.draining, m.drainBy = true, m.now+core.Time(m.cfg.Patience)
	if m.works > 0 {
		m.drainBy += core.Time(m.cfg.StopTimeout)
	}
	for _, id := range slices.Sorted(maps.Keys(m.sessions)) {
		m.interrupt(m.sessions[id])
	}
	m.turns.line = nil // interrupt has forgotten them
}
