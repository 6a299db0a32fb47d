package election

import (
	"strconv"

	"github.com/leasestorm/leasestorm/internal/core"
)

// phase is where a member stands in its life.
type phase uint8

const (
	unborn   phase = iota
	delaying       // until Machine.wake
	running
	stopping // a leader whose work has yet to return, or whose release has yet to be told
	stopped
)

// Machine is one member's part in one election.
type Machine struct {
	cfg    Config
	now    core.Now
	eff    Effects
	phase  phase
	state  State
	wake   core.Time // delaying: the first attempt; running: the next cycle of a follower or heartbeat of a leader
	leader Leadership

	vain    bool // follower: the last attempt failed, and not because another leads
	certain bool // leader: no renewal has failed since the last that succeeded
	busy    bool // work runs under the leadership, or has not returned from a lost one
	owed    bool // a heartbeat was due while uncertain
	twin    bool // told that the ID is used twice, since the last leadership
	self    int  // cycles in a row that showed this member's ID while it did not lead

	heart heart
}

// heart is what a follower knows of the leader's heartbeat. It is judged by this member's own clock: a heartbeat is fresh
// as long as it changes.
type heart struct {
	there   bool
	text    string
	since   core.Time // when it was first seen with this text, or first missed
	stale   bool      // told
	invalid bool      // told
}

// New returns the machine of a member that has yet to start.
func New(cfg Config) *Machine { return &Machine{cfg: cfg} }

// State returns what the member is.
func (m *Machine) State() State { return m.state }

// Leader returns who leads, as far as the member knows: until Leadership.Until.
func (m *Machine) Leader() Leadership { return m.leader }

// Leads reports whether new work may begin, as far as the rules know; the trust window has the last word.
func (m *Machine) Leads() bool { return m.state == Leader && m.phase == running }

// Stopped reports whether the member has withdrawn: it leads no more and never will again.
func (m *Machine) Stopped() bool { return m.phase == stopped }

// Next returns when the machine wants a Tick; 0: never.
func (m *Machine) Next() core.Time {
	if m.phase == delaying || m.phase == running || m.state == Leader {
		return m.wake
	}
	return 0
}

// Step takes one input and returns what follows from it.
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
			m.want() // so that it is told again why there is no attempt
		}
	}
}

// aligned returns the next multiple of interval on the instance's clock, so that what many elections of one instance have to
// ask travels together.
func (m *Machine) aligned(interval int64) core.Time {
	return m.now.Mono - m.now.Mono%core.Time(interval) + core.Time(interval)
}

func (m *Machine) want() {
	if m.phase == running && !m.busy {
		m.eff.Want = true
	}
}

func (m *Machine) look() { m.eff.Look, m.eff.LookOf = true, m.leader.Instance }

// beat writes the heartbeat, unless a renewal has failed: a leader in doubt does not call itself well.
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
		m.eff.Drop = true // won in the moment of the stop
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

// lost ends leadership, given back or not.
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

// refused ends an attempt. One that the core did not even send, because Redis does not answer, is an attempt for whoever
// listens: a member that cannot be elected says so once in an interval, with the cause.
func (m *Machine) refused(in *Input) {
	if m.phase == running && m.state == Follower {
		m.become(Candidate, 0)
	}
	m.vain = in.Owner == ""
	m.fail(in.Reason, in.Owner)
	if in.Owner == m.cfg.Instance {
		m.duplicate("the leader key holds this member's ID, and it is not this member that wrote it")
	}
	if m.phase != running || in.Owner == "" {
		return
	}
	m.know(in.Owner, 0)
	if m.leader.Instance != "" && m.leader.Fence == 0 {
		m.look() // its fence
	}
}

// fail ends a candidacy.
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

// know takes note of who leads now, by the leader key. Where that names this member, and it does not lead, nobody is known
// to: it is what a leadership left that ended before its key, or a twin's.
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

// done takes note that the work under the leadership, or under one that was lost, has returned.
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

// heeds reports whether a look says what the member does not find out otherwise. A candidate's attempt finds out whether the key is
// free, or the member's own; under which fence another leads its refusal does not say, and a cycle that is not heeded is one without.
func (m *Machine) heeds(l *Look) bool {
	if m.phase != running || l.Failed {
		return false
	}
	return m.state == Follower || m.state == Candidate && l.Leader != "" && l.Leader != m.cfg.Instance
}

// looked takes what a follower's cycle read.
func (m *Machine) looked(l *Look) {
	switch {
	case l.Leader == "":
		if l.Of != "" && l.Of == m.leader.Instance && !l.Beats { // the leader left, and the notice of it did not arrive
			m.know("", 0)
			m.want()
			return
		}
		// With a heartbeat it would be a key that vanished from under a leader who may believe in it still: that one finds out at
		// its next renewal, before the core acts. But where Redis lost it with everything else, and the leader is frozen, nobody
		// would notice, and the quarantine begin with the next attempt.
		m.eff.Doubt = true
		return
	case l.Leader != m.cfg.Instance:
		m.self, m.vain = 0, false
	default: // once, it may be what an own attempt left, which the core adopts
		if m.self++; m.self > 1 {
			m.duplicate("the leader key holds this member's ID, and this member does not lead")
		}
	}
	m.know(l.Leader, l.Fence)
	if l.Of == l.Leader && l.Leader == m.leader.Instance {
		m.listen(l.Beats, l.Heartbeat)
	}
}

// listen judges the leader's heartbeat. Whatever it is, the leader key decides who leads: a stale heartbeat is told, never
// a reason to take over.
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
		m.publish(Event{Kind: HeartbeatStale, Leader: m.leader.Instance, Reason: "it has not changed for longer than it lives"})
	}
}

// wrong says what is wrong with a heartbeat, "" for nothing. Clocks of two instances are compared here and nowhere else,
// and nothing but words follows from it.
func (m *Machine) wrong(text string) string {
	ms, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || ms < 0:
		return "it holds no time in ms" // what it holds, whoever wrote it, is not shown
	case ms-m.now.Wall/core.Millisecond > HeartbeatSlack/core.Millisecond:
		return "it is " + strconv.FormatInt(ms-m.now.Wall/core.Millisecond, 10) + " ms ahead of this member's clock"
	}
	return ""
}

// become makes a transition; fence is that of the leadership that begins or ends with it.
func (m *Machine) become(to State, fence int64) {
	m.publish(Event{Kind: StateChanged, From: m.state, To: to, Fence: fence})
	m.state = to
}

func (m *Machine) publish(e Event) {
	e.At = m.now.Mono
	m.eff.Events = append(m.eff.Events, e)
}
