package election

import (
	"strconv"

	"github.com/leasestorm/leasestorm/internal/core"
)

type phase uint8

const (
	unborn   phase = iota
	delaying       // until Machine.wake
	running
	stopping // until work returns, or the core reports the release
	stopped
)

// Machine is one member's part in one election. It is not safe for concurrent use.
type Machine struct {
	cfg    Config
	now    core.Now
	eff    Effects
	phase  phase
	state  State
	wake   core.Time // delaying: the first attempt; running: the next cycle of a follower or heartbeat of a leader
	leader Leadership

	vain    bool // follower: the last attempt failed, and not because another leads
	certain bool // leader: no renewal has failed since the last successful one
	busy    bool // work runs under the leadership, or has not returned from a lost one
	owed    bool // a heartbeat was due while uncertain
	twin    bool // DuplicateInstance was published since the last leadership
	self    int  // cycles in a row that showed this member's ID in the leader key while it did not lead

	heart heart
}

// heart is the leader's heartbeat, as a follower knows it. A heartbeat is fresh as long as it changes, by the follower's own clock.
type heart struct {
	there   bool
	text    string
	since   core.Time // when it was first seen with this text, or first missed
	stale   bool      // HeartbeatStale was published
	invalid bool      // HeartbeatInvalid was published
}

// New returns a Machine whose first input must be Start.
func New(cfg Config) *Machine { return &Machine{cfg: cfg} }

// State returns the member's state.
func (m *Machine) State() State { return m.state }

// Leader returns the leader as far as the member knows, valid until Leadership.Until.
func (m *Machine) Leader() Leadership { return m.leader }

// Leads reports whether new work may begin by these rules. The caller must also check the trust window.
func (m *Machine) Leads() bool { return m.state == Leader && m.phase == running }

// Stopped reports whether the member has withdrawn: it does not lead and never will again.
func (m *Machine) Stopped() bool { return m.phase == stopped }

// Next returns when the machine wants a Tick; 0: never.
func (m *Machine) Next() core.Time {
	if m.phase == delaying || m.phase == running || m.state == Leader {
		return m.wake
	}
	return 0
}

// Step takes one input and returns its effects.
func (m *Machine) Step(in Input) Effects {
	m.now = in.Now
	m.eff = Effects{Events: m.eff.Events[:0]}
	switch in.Kind {
	case Start:
		if m.phase == unborn {
			m.phase = delaying
			m.wake = m.now.Mono + core.Time(m.cfg.StartDelay)
			m.tick()
		}
	case Tick:
		m.tick()
	case Stop:
		m.stop()
	case Attempt:
		if m.phase == running && m.state == Follower {
			m.become(Candidate, 0)
		}
	case Tell:
		m.told(&in)
	case Looked:
		if m.heeds(&in.Look) {
			m.looked(&in.Look)
		}
	case Busy:
		m.busy = true
	case Done:
		m.done()
	}
	return m.eff
}

func (m *Machine) tick() {
	if m.wake == 0 || m.now.Mono < m.wake {
		return
	}
	switch {
	case m.state == Leader:
		m.wake = m.aligned(m.cfg.Heartbeat)
		m.beat()
	case m.phase == delaying:
		m.phase = running
		m.wake = m.aligned(m.cfg.Interval)
		m.want()
	case m.phase == running:
		m.wake = m.aligned(m.cfg.Interval)
		if m.state != Follower {
			return
		}
		m.look()
		if m.vain {
			m.want() // its refusal reports again why the attempts fail
		}
	}
}

// aligned returns the next multiple of interval on the instance's clock, so that the requests of its elections leave together.
func (m *Machine) aligned(interval int64) core.Time {
	return m.now.Mono - m.now.Mono%core.Time(interval) + core.Time(interval)
}

func (m *Machine) want() {
	if m.phase == running && !m.busy {
		m.eff.Want = true
	}
}

func (m *Machine) look() { m.eff.Look, m.eff.LookOf = true, m.leader.Instance }

// beat writes the heartbeat. If a renewal has failed, it postpones that until the next successful one.
func (m *Machine) beat() {
	m.owed = !m.certain
	m.eff.Beat = m.certain
}

func (m *Machine) told(in *Input) {
	switch in.Tell {
	case core.TellAcquired:
		m.acquired(in)
	case core.TellRenewed:
		m.certain = true
		if m.state == Leader && m.owed {
			m.beat()
		}
	case core.TellUncertain:
		m.certain = false
	case core.TellLost, core.TellReleased:
		if m.state == Leader {
			m.eff.Unbeat = in.Tell == core.TellReleased
			m.lost(in)
		}
	case core.TellRefused:
		m.refused(in)
	case core.TellYield:
		m.stop()
	}
}

func (m *Machine) acquired(in *Input) {
	if m.phase != running {
		m.eff.Drop = true // acquired while stopping
		return
	}
	if m.state == Follower {
		m.become(Candidate, 0)
	}
	m.become(Leader, in.Fence)
	m.vain, m.certain, m.owed, m.twin, m.self = false, true, false, false, 0
	m.publish(Event{Kind: LeadershipAcquired, Fence: in.Fence, Leader: m.cfg.Instance})
	m.know(m.cfg.Instance, in.Fence)
	m.wake = m.aligned(m.cfg.Heartbeat)
	m.eff.Sweep = true
	m.beat()
}

func (m *Machine) lost(in *Input) {
	m.certain = false
	m.become(Follower, in.Fence)
	m.publish(Event{Kind: LeadershipLost, Fence: in.Fence, Reason: in.Reason, Leader: in.Owner})
	m.know(in.Owner, 0)
	if m.phase == stopping {
		if !m.busy { // else Done ends it
			m.phase = stopped
		}
		return
	}
	m.wake = m.aligned(m.cfg.Interval)
	m.want()
}

// refused ends an attempt. An attempt that the core did not send, because Redis does not answer, also counts. So a member that cannot be
// elected publishes ElectionFailed with the cause once in an interval.
func (m *Machine) refused(in *Input) {
	if m.phase == running && m.state == Follower {
		m.become(Candidate, 0)
	}
	m.vain = in.Owner == ""
	m.fail(in.Reason, in.Owner)
	if in.Owner == m.cfg.Instance {
		m.duplicate("the leader key holds this member's ID, but another process wrote it")
	}
	if m.phase != running || in.Owner == "" {
		return
	}
	m.know(in.Owner, 0)
	if m.leader.Instance != "" && m.leader.Fence == 0 {
		m.look() // its fence
	}
}

func (m *Machine) fail(reason, leader string) {
	if m.state != Candidate {
		return
	}
	m.become(Follower, 0)
	m.publish(Event{Kind: ElectionFailed, Reason: reason, Leader: leader})
}

func (m *Machine) duplicate(reason string) {
	if !m.twin {
		m.twin = true
		m.publish(Event{Kind: DuplicateInstance, Reason: reason})
	}
}

// know records the leader in the leader key. If the key names this member, which does not lead, then no leader is known: the key remains
// from an ended leadership, or belongs to a process with the same ID.
func (m *Machine) know(instance string, fence int64) {
	var until core.Time
	switch {
	case m.state == Leader || instance == "":
	case instance == m.cfg.Instance:
		instance, fence = "", 0
	default:
		until = m.now.Mono + core.Time(m.cfg.TTL)
	}
	l := &m.leader
	l.Until = until
	if l.Instance == instance && (l.Fence == fence || fence == 0) {
		return
	}
	if l.Instance != instance || l.Fence != 0 {
		l.Since = m.now.Mono
		m.heart = heart{since: m.now.Mono}
	}
	l.Instance, l.Fence = instance, fence
	if instance == "" {
		l.Since = 0
		return
	}
	m.publish(Event{Kind: LeaderChanged, Leader: instance, Fence: fence})
}

func (m *Machine) stop() {
	switch m.phase {
	case unborn, delaying:
		m.phase = stopped
	case running:
		m.phase = stopping
		m.eff.Drop = m.state != Leader || !m.busy
		m.fail("stopped", "")
		if m.state != Leader && !m.busy {
			m.phase = stopped
		}
	}
}

func (m *Machine) done() {
	m.busy = false
	switch {
	case m.phase == stopping && m.state == Leader:
		m.eff.Drop = true
	case m.phase == stopping:
		m.phase = stopped
	case m.phase == running && m.state == Follower:
		m.want()
	}
}

// heeds reports whether l counts. While a candidate's attempt is under way, only a look that shows another leader does: its fence is not
// in a refusal. The attempt itself finds out whether the key is free or the member's own.
func (m *Machine) heeds(l *Look) bool {
	if m.phase != running || l.Failed {
		return false
	}
	return m.state == Follower || m.state == Candidate && l.Leader != "" && l.Leader != m.cfg.Instance
}

func (m *Machine) looked(l *Look) {
	switch {
	case l.Leader == "":
		if l.Of != "" && l.Of == m.leader.Instance && !l.Beats { // the leader left, and the notice of it did not arrive
			m.know("", 0)
			m.want()
			return
		}
		// The key vanished from a leader that may still believe in it. That leader notices at its next renewal, before the core acts. But
		// if Redis lost all its data and the leader is frozen, only this member can notice; otherwise the quarantine would not begin
		// before the next attempt.
		m.eff.Doubt = true
		return
	case l.Leader != m.cfg.Instance:
		m.self, m.vain = 0, false
	default: // once, it may be from an attempt of this member, and the core adopts it
		if m.self++; m.self > 1 {
			m.duplicate("the leader key holds this member's ID, and this member does not lead")
		}
	}
	m.know(l.Leader, l.Fence)
	if l.Of == l.Leader && l.Leader == m.leader.Instance {
		m.listen(l.Beats, l.Heartbeat)
	}
}

// listen checks the leader's heartbeat. The leader key alone decides who leads: a stale heartbeat leads to an event, never to a takeover.
func (m *Machine) listen(there bool, text string) {
	h := &m.heart
	if there != h.there || text != h.text {
		*h = heart{there: there, text: text, since: m.now.Mono}
	}
	if there && !h.invalid {
		if reason := m.wrong(text); reason != "" {
			h.invalid = true
			m.publish(Event{Kind: HeartbeatInvalid, Leader: m.leader.Instance, Reason: reason})
		}
	}
	if !h.stale && m.now.Mono-h.since > core.Time(m.cfg.HeartbeatTTL()) {
		h.stale = true
		m.publish(Event{Kind: HeartbeatStale, Leader: m.leader.Instance, Reason: "it has not changed for longer than its TTL"})
	}
}

// wrong returns what is wrong with a heartbeat, "" for nothing. Only here are the clocks of two instances compared, and only an event
// follows from it.
func (m *Machine) wrong(text string) string {
	ms, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || ms < 0:
		return "it is not a time in ms" // its value is untrusted, and not shown
	case ms-m.now.Wall/core.Millisecond > HeartbeatSlack/core.Millisecond:
		return "it is " + strconv.FormatInt(ms-m.now.Wall/core.Millisecond, 10) + " ms ahead of this member's clock"
	}
	return ""
}

func (m *Machine) become(to State, fence int64) {
	m.publish(Event{Kind: StateChanged, From: m.state, To: to, Fence: fence})
	m.state = to
}

func (m *Machine) publish(e Event) {
	e.At = m.now.Mono
	m.eff.Events = append(m.eff.Events, e)
}
