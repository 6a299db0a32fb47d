package intent

import (
	"maps"
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
)

// write sends what the phase stands for.
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
		e.Slot, e.TunerFence = m.cfg.Slots[s.slot], s.tfence
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
	case s.sent == Ended && w == WroteMissing: // the entry is still on the bus, and would come back for ever
		s.after = buryIt
		m.proceed(s)
	case s.sent == Ended:
		m.gone(s)
	default: // the answer to RUNNING, come while the pipeline was being ended
		s.acked = s.acked || w == WroteOK || w == WroteStop
		m.disown(s, w)
		if s.phase == ending {
			m.proceed(s)
		}
	}
}

// disown takes note that the session is not this worker's to write about.
func (m *Machine) disown(s *session, w Wrote) {
	switch w {
	case WroteOver:
		s.after = leaveIt
	case WroteMissing:
		s.after = buryIt
	}
}

func (m *Machine) startingWritten(s *session, w Wrote) {
	m.disown(s, w)
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

// launch starts the pipeline if the leases leave it time.
func (m *Machine) launch(s *session) {
	if m.now >= m.deadline(s) {
		m.sleep(s, 0, launching)
		return
	}
	s.phase = launching
	m.works++
	m.do(Effect{Kind: Launch, Session: s.entry.Session, Slot: m.cfg.Slots[s.slot], Fence: s.fence, TunerFence: s.tfence})
}

func (m *Machine) launched(s *session, e *Event) {
	if s.phase != launching { // a stop of it came first
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
		m.arm(s, m.deadline(s))
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
	m.disown(s, w)
	switch w {
	case WroteOK:
		s.acked = true
		s.phase = running
		m.running++
		m.leaveTurn(s)
	case WroteStop:
		s.acked = true
		s.stop = true
		m.interrupt(s)
	case WroteFailed:
		m.arm(s, min(m.now+core.Time(m.cfg.Retry), m.deadline(s)))
	default:
		m.halt(s, LeaseLost, "its record is gone, or is another's")
	}
}

// deadline is when the pipeline must be asked to end unless both leases are renewed.
func (m *Machine) deadline(s *session) core.Time {
	return min(s.service.until, s.tuner.until) - core.Time(m.cfg.Grace)
}

// due does what the timer of s was set for.
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
		m.arm(s, m.deadline(s))
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
		s.awaits = false // what it has tried since it began is not tried again
		m.trySlot(s)
	case starting:
		m.write(s)
	case launching:
		m.launch(s)
	}
}

// interrupt ends what s is doing, if anything wants that, as far as it can be ended now: attempts under way are awaited.
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
	case launching: // the pipeline that is being started has as long to end as one that runs
		if s.stop {
			s.live = true
			m.awaitEnd(s, Stopped, "stopped on request")
		} else if s.lost { // what the launch comes to decides until then whether the start begins anew
			m.arm(s, m.now+core.Time(m.cfg.StopTimeout))
		}
	}
	return false
}

// interrupted reports whether s must not go on, and ends it. No attempt of s is under way.
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
	case s.stop && (s.entry.Fence == 0 || s.service.fence != 0): // else a worker that began it may run it still
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

// halt asks the pipeline to end.
func (m *Machine) halt(s *session, reason Reason, text string) {
	m.leaveRunning(s)
	m.awaitEnd(s, reason, text)
	m.do(Effect{Kind: Halt, Session: s.entry.Session})
}

func (m *Machine) awaitEnd(s *session, reason Reason, text string) {
	s.phase, s.reason, s.text = halting, reason, text
	m.arm(s, m.now+core.Time(m.cfg.StopTimeout))
}

// stuck gives up a pipeline that does not return: nobody knows whether it still works, so its leases are neither renewed
// nor released, and its slot is not used again here before it has returned.
func (m *Machine) stuck(s *session) {
	s.live = true                                                              // also while it is still being started
	m.do(Effect{Kind: Abandon, Session: s.entry.Session, Leases: m.unhold(s)}) // those that were lost before too
	s.reason, s.text = PipelineFailed, "the pipeline did not stop in time; its leases expire"
	m.proceed(s)
}

func (m *Machine) returned(s *session, text string) {
	s.live = false
	m.ended()
	m.leaveRunning(s)
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

func (m *Machine) leaveRunning(s *session) {
	if s.phase == running {
		s.phase = up
		m.running--
	}
}

// check writes RUNNING again for all that run: whose record is gone learns it.
func (m *Machine) check() {
	for _, id := range slices.Sorted(maps.Keys(m.sessions)) {
		if s := m.sessions[id]; s.phase == running && !s.asked {
			m.leaveRunning(s)
			m.write(s)
		}
	}
}

// end ends a session whose pipeline does not run.
func (m *Machine) end(s *session, reason Reason, text string) {
	s.reason, s.text = reason, text
	s.after = writeEnded
	m.giveBack(s)
}

// giveBack releases all that s holds; what follows is decided when that is done.
func (m *Machine) giveBack(s *session) {
	m.disarm(s)
	s.phase = releasing
	names := m.unhold(s)
	if len(names) == 0 {
		m.released(s)
		return
	}
	m.do(Effect{Kind: Release, Session: s.entry.Session, Leases: names})
}

// unhold forgets the terms of s and returns their names.
func (m *Machine) unhold(s *session) []string {
	var names []string
	for _, t := range []*term{&s.service, &s.tuner} {
		if t.fence != 0 {
			names = append(names, t.name)
			delete(m.leases, t.name)
		}
		*t = term{}
	}
	return names
}

func (m *Machine) released(s *session) {
	m.freeSlot(s)
	m.proceed(s)
}

// proceed goes on with a session that holds nothing any more.
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
				Text: "no session has this ID and this service"})
		}
		m.gone(s)
	default:
		s.phase = ending
		if !s.asked {
			m.write(s)
		}
	}
}

// gone is the end of a session here, but for a pipeline that has not returned.
func (m *Machine) gone(s *session) {
	if s.live {
		s.phase = stranded
		m.leaveTurn(s)
		return
	}
	m.forget(s)
}

func (m *Machine) forget(s *session) {
	m.disarm(s)
	m.leaveTurn(s)
	m.freeSlot(s)
	delete(m.sessions, s.entry.Session)
	m.do(Effect{Kind: Forget, Session: s.entry.Session})
}

func (m *Machine) freeSlot(s *session) {
	if s.slot >= 0 && m.mine[s.slot] == s {
		m.mine[s.slot] = nil
	}
	s.slot = -1
}

func (m *Machine) leaveTurn(s *session) {
	if s.turn {
		s.turn = false
		m.busy--
	}
}

// renewed takes note of a longer trust window. The timer finds out when it is due.
func (m *Machine) renewed(e *Event) {
	s := m.leases[e.Lease]
	if s == nil {
		return
	}
	for _, t := range []*term{&s.service, &s.tuner} {
		if t.name == e.Lease && t.fence == e.Fence {
			t.until = max(t.until, e.Until)
		}
	}
}

// lostLease ends a term. Its session ends what it does under it.
func (m *Machine) lostLease(e *Event) {
	s := m.leases[e.Lease]
	if s == nil {
		return
	}
	for _, t := range []*term{&s.service, &s.tuner} {
		if t.name == e.Lease && t.fence == e.Fence {
			*t = term{}
			delete(m.leases, e.Lease)
			if !s.lost { // with the first of two its time begins
				s.lost = true
				m.interrupt(s)
			}
			return
		}
	}
}

// ended is the end of a pipeline. When the last has returned, all that a drain waits for is Redis' word.
func (m *Machine) ended() {
	if m.works--; m.draining && m.works == 0 {
		m.drainBy = m.now + core.Time(m.cfg.Patience)
	}
}

// drain begins the end of everything.
func (m *Machine) drain() {
	m.draining, m.drainBy = true, m.now+core.Time(m.cfg.Patience)
	if m.works > 0 {
		m.drainBy += core.Time(m.cfg.StopTimeout)
	}
	for _, id := range slices.Sorted(maps.Keys(m.sessions)) {
		m.interrupt(m.sessions[id])
	}
}
