package member

import "github.com/leasestorm/leasestorm/internal/term"

// Membership is this instance's own part in the registry.
type Membership struct {
	r           *Registry
	heartbeats  bool // it has a heartbeat
	started     bool
	beat, leave bool      // the heartbeat is to be set, or to be deleted
	leaving     bool      // for good
	ends        term.Time // when every heartbeat that was sent has expired

	written     bool      // a heartbeat was set since the last failed acquisition
	othersTake  bool      // another instance was seen to take a lease since the last failed acquisition
	unable      int       // acquisitions in a row that failed although Redis answers and others acquire leases
	unableAt    term.Time // when the last of them failed
	withdrawals int       // in a row, because of failed acquisitions
	rejoin      term.Time // withdrawn until then
}

// NewMembership returns the part of r's own instance. heartbeats says whether it has a heartbeat.
func NewMembership(r *Registry, heartbeats bool) *Membership {
	return &Membership{r: r, heartbeats: heartbeats}
}

// Start makes this instance take part. It reports whether this is the first
// Start.
func (m *Membership) Start() bool {
	if m.started {
		return false
	}
	m.started = true
	m.Refresh()
	return true
}

// Started reports whether this instance was started.
func (m *Membership) Started() bool { return m.started }

// Leave removes this instance for good, so that placement gives it no more sessions. It reports whether this is the first Leave.
func (m *Membership) Leave() bool {
	if m.leaving {
		return false
	}
	m.leaving, m.rejoin, m.r.closed = true, 0, true
	m.leave = m.started && m.heartbeats
	m.count(false)
	return true
}

// Leaving reports whether this instance leaves for good.
func (m *Membership) Leaving() bool { return m.leaving }

// Refresh makes the heartbeat due.
func (m *Membership) Refresh() { m.beat = m.heartbeats }

// BeatDue reports whether the heartbeat is to be set.
func (m *Membership) BeatDue() bool { return m.beat }

// Beat is called when the heartbeat can be set. It reports whether it is to be sent.
func (m *Membership) Beat() (send bool) {
	m.beat = false
	return !m.leaving && m.rejoin == 0 && !m.r.k.Outside()
}

// BeatSent records a heartbeat that will have expired at ends. The earlier ones remain in place if it is refused.
func (m *Membership) BeatSent(ends term.Time) { m.ends = max(m.ends, ends) }

// BeatAnswered records that a heartbeat was set or, if it was of an earlier epoch, was not.
func (m *Membership) BeatAnswered(stale bool) {
	m.written = !stale
	m.beat = m.beat || stale
	m.beatEnded()
}

// BeatFailed makes the heartbeat due again.
func (m *Membership) BeatFailed() {
	m.Unfit()
	m.beat = true
	m.beatEnded()
}

// Unfit records that requests other than acquisitions fail, too.
func (m *Membership) Unfit() { m.unable = 0 }

// beatEnded records that no heartbeat is under way any more. A leaving instance deletes its heartbeat again, because Redis may have
// executed that last heartbeat after the deletion.
func (m *Membership) beatEnded() { m.leave = m.leave || m.leaving }

// LeaveDue reports whether the heartbeat is to be deleted.
func (m *Membership) LeaveDue() bool { return m.leave }

// LeaveSent records that the deletion of the heartbeat was sent.
func (m *Membership) LeaveSent() { m.leave = false }

// LeaveFailed plans another deletion of the heartbeat, unless the heartbeat has expired by itself or this instance is only
// withdrawn.
func (m *Membership) LeaveFailed() { m.leave = m.leave || m.leaving && m.r.k.Now() < m.ends }

func (m *Membership) count(counts bool) {
	m.r.nodes[0].alive = counts
	m.r.version++
}

// OthersTake records that another instance was seen to take a lease.
func (m *Membership) OthersTake() { m.othersTake = true }

// Able records that an acquisition was answered. It reports whether this instance was doubtful before.
func (m *Membership) Able() bool {
	news := m.Doubtful()
	m.unable, m.withdrawals = 0, 0
	return news
}

// Doubtful reports whether acquisitions of this instance failed and none has been answered since.
func (m *Membership) Doubtful() bool { return m.unable > 0 || m.withdrawals > 0 }

// AcquisitionFailed counts failed acquisitions. An instance that beats but can acquire nothing would keep asking for its share, and
// the others would release leases in vain. It therefore leaves the registry after three failures, for longer each time. pause is
// how long it leaves, 0 if it stays. sent is when the failed request was sent.
func (m *Membership) AcquisitionFailed(sent term.Time) (pause int64) {
	m.beat = m.beat || m.heartbeats // shows before the next attempt whether this instance can write at all
	if !m.written || !m.othersTake {
		return 0 // Redis may be the reason: not even heartbeats succeed, or no instance takes anything
	}
	if sent < m.unableAt {
		return 0 // it was under way when the last one failed, so it is no new failure
	}
	m.written, m.othersTake, m.unableAt = false, false, m.r.k.Now()
	if m.unable++; m.unable < 3 || !m.heartbeats || m.rejoin != 0 || m.leaving {
		return 0
	}
	pause = m.r.cfg.Rejoin(m.withdrawals)
	m.withdrawals++
	m.rejoin = m.r.k.Now() + term.Time(pause)
	m.leave = true
	m.count(false)
	return pause
}

// Rejoin returns when this instance, which has withdrawn, rejoins; 0 if it has not.
func (m *Membership) Rejoin() term.Time { return m.rejoin }

// Rejoins ends a withdrawal.
func (m *Membership) Rejoins() {
	m.rejoin, m.unable = 0, 0
	m.beat = true
	m.count(true)
}
