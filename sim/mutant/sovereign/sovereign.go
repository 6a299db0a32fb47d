// Package sovereign is leader election exactly as the document of the Sovereign library's Redis backend writes it, split
// brains and all: the mutant of the election system. docs/election.md shows what the storm finds in it.
//
// Where the document is silent, the reading that is kindest to it is taken:
//
//   - A leader without a heartbeat key is stale only once the follower has not seen one for leader TTL + 5 s: a leader sends
//     its first heartbeat up to an interval after it was elected.
//   - "Forcibly attempts election" deletes the leader key and sets it anew; there is no other way to pass SET NX.
//   - A leader that stops ceases to lead before it gives the key back.
//   - A command that fails or is not answered changes nothing: the next cycle tries again.
package sovereign

import (
	"strconv"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/foreign"
)

// Config is a member's. Every field must be set, StartDelay excepted.
type Config struct {
	Instance        string
	LeaderKey       string
	HeartbeatPrefix string
	TTL             time.Duration // of the leader key
	Grace           time.Duration // heartbeats live this much longer, and are stale then: 5 s at a TTL of 30 s
	Election        time.Duration // between election cycles
	Heartbeat       time.Duration // between heartbeats
	StartDelay      time.Duration // before the first cycle
}

// state is one of the document's three.
type state string

const (
	follower  state = "FOLLOWER"
	candidate state = "CANDIDATE"
	leader    state = "LEADER"
)

// step is what the election task waits for. The names are the document's.
type step uint8

const (
	idle       step = iota
	master          // masterElection: GET leader
	renewing        // renewLeaderTTL: EXPIRE
	checking        // checkLeaderHealth: GET heartbeat
	attempting      // attemptElection: SET NX
	verifying       // double verification: GET leader
	listing         // cleanupOldHeartbeats: KEYS
	rechecking      // the forced takeover: GET heartbeat again
	deposing        // DEL leader
	releasing       // releaseLeadership: GET, then DEL
	deleting
)

// Member is one instance. It implements foreign.Machine.
type Member struct {
	cfg   Config
	state state
	began bool
	seq   uint64

	election, heartbeat time.Duration // next runs of the two tasks

	step    step
	waits   uint64 // for the reply to this command, 0 none
	coup    bool   // this attempt is the last resort
	other   string // leader whose health is being checked
	seen    string // leader whose heartbeat was looked at last
	fresh   time.Duration
	told    string // the last leader it spoke of
	stopped bool

	now  time.Duration
	wall time.Time
	eff  foreign.Effects
}

// New returns a member that has not started: its first Step starts it.
func New(c Config) *Member { return &Member{cfg: c, state: follower} }

// Next implements foreign.Machine.
func (m *Member) Next() (time.Duration, bool) {
	return min(m.election, m.heartbeat), m.began && !m.stopped
}

// Step implements foreign.Machine.
func (m *Member) Step(in foreign.Input) foreign.Effects {
	m.now, m.wall, m.eff = in.Now, in.Wall, foreign.Effects{}
	if !m.began {
		m.began = true
		m.election = m.now + m.cfg.StartDelay
		m.heartbeat = m.election
	}
	switch {
	case in.Stop:
		m.stop()
	case in.Reply != nil:
		if in.Reply.Seq == m.waits {
			m.waits = 0
			m.answered(in.Reply)
		}
	case !m.stopped:
		m.tasks()
	}
	return m.eff
}

// tasks runs what is due. A cycle that waits for Redis is not begun again.
func (m *Member) tasks() {
	if m.now >= m.election {
		m.election = m.now + m.cfg.Election
		if m.step == idle {
			m.ask(master, "GET", m.cfg.LeaderKey)
		}
	}
	if m.now >= m.heartbeat {
		m.heartbeat = m.now + m.cfg.Heartbeat
		if m.state == leader {
			m.send("SET", m.cfg.HeartbeatPrefix+m.cfg.Instance, strconv.FormatInt(m.wall.UnixMilli(), 10),
				"PX", ms(m.cfg.TTL+m.cfg.Grace))
		}
	}
}

// ms is a time to live: a run at a higher speed than life's has TTLs that are no whole seconds.
func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func (m *Member) send(args ...string) uint64 {
	m.seq++
	m.eff.Commands = append(m.eff.Commands, foreign.Command{Seq: m.seq, Args: args})
	return m.seq
}

func (m *Member) ask(next step, args ...string) { m.step, m.waits = next, m.send(args...) }

func (m *Member) answered(r *foreign.Reply) {
	was := m.step
	m.step = idle
	if r.Err != "" {
		m.failed(was)
		return
	}
	switch was {
	case master:
		m.masterElection(r.Text())
	case checking:
		if m.stale(r) {
			m.attempt()
		}
	case attempting:
		m.attempted(r.Text() == "OK")
	case verifying:
		m.verified(r.Text())
	case listing:
		m.cleanup(r.Texts())
	case rechecking:
		m.recheck(r)
	case deposing:
		m.coup = true
		m.attempt()
	case releasing:
		if r.Text() == m.cfg.Instance {
			m.ask(deleting, "DEL", m.cfg.LeaderKey)
			return
		}
		m.eff.Exit = true
	case deleting:
		m.eff.Exit = true
	case idle, renewing:
	}
}

// failed: what Redis did is not known. A leader goes on leading.
func (m *Member) failed(was step) {
	switch was {
	case attempting, verifying:
		m.lose("no answer")
	case releasing, deleting:
		m.eff.Exit = true
	default:
	}
}

func (m *Member) masterElection(holder string) {
	switch holder {
	case "":
		m.other, m.coup = "", false
		m.attempt()
	case m.cfg.Instance: // whoever holds it by the time this arrives: EXPIRE does not ask
		m.ask(renewing, "PEXPIRE", m.cfg.LeaderKey, ms(m.cfg.TTL))
	default:
		m.become(follower, "another leader")
		m.leading(holder)
		m.coup = false
		m.other = holder
		m.health(checking)
	}
}

func (m *Member) health(next step) {
	m.ask(next, "GET", m.cfg.HeartbeatPrefix+m.other)
}

// stale is heartbeatAge > leaderTTL + 5 s, by the clocks of two machines.
func (m *Member) stale(r *foreign.Reply) bool {
	if m.other != m.seen {
		m.seen, m.fresh = m.other, m.now
	}
	limit := m.cfg.TTL + m.cfg.Grace
	ms, err := strconv.ParseInt(r.Text(), 10, 64)
	if err != nil {
		return m.now-m.fresh > limit
	}
	if m.wall.Sub(time.UnixMilli(ms)) > limit {
		return true
	}
	m.fresh = m.now
	return false
}

func (m *Member) attempt() {
	m.become(candidate, "")
	m.ask(attempting, "SET", m.cfg.LeaderKey, m.cfg.Instance, "NX", "PX", ms(m.cfg.TTL))
}

func (m *Member) attempted(done bool) {
	switch {
	case done:
		m.ask(verifying, "GET", m.cfg.LeaderKey)
	case m.other != "" && !m.coup: // it came here because the heartbeat was stale: is it still?
		m.health(rechecking)
	default:
		m.lose("held")
	}
}

// recheck is the forced takeover of a leader whose heartbeat is stale and whose key is alive.
func (m *Member) recheck(r *foreign.Reply) {
	if !m.stale(r) {
		m.lose("held")
		return
	}
	m.ask(deposing, "DEL", m.cfg.LeaderKey)
}

func (m *Member) verified(holder string) {
	if holder != m.cfg.Instance {
		m.lose("conflict")
		return
	}
	m.other = ""
	m.become(leader, "")
	m.ask(listing, "KEYS", m.cfg.HeartbeatPrefix+"*")
}

func (m *Member) cleanup(keys []string) {
	for _, key := range keys {
		if id, ok := strings.CutPrefix(key, m.cfg.HeartbeatPrefix); ok && id != m.cfg.Instance {
			m.send("DEL", key)
		}
	}
}

func (m *Member) lose(why string) {
	m.other = ""
	m.become(follower, why)
	m.say(foreign.Word{Event: "electionFailed", Reason: why})
}

// stop is releaseLeadership, then the end.
func (m *Member) stop() {
	if m.stopped {
		return
	}
	m.stopped = true
	if m.state != leader {
		m.eff.Exit = true
		return
	}
	m.become(follower, "stopped")
	m.ask(releasing, "GET", m.cfg.LeaderKey)
}

// become is transitionTo, with the events that the document's table gives.
func (m *Member) become(s state, why string) {
	if m.state == s {
		return
	}
	was := m.state
	m.state = s
	switch {
	case s == leader:
		m.say(foreign.Word{Event: "acquired"})
	case was == leader && m.stopped:
		m.say(foreign.Word{Event: "released", Reason: why})
	case was == leader:
		m.say(foreign.Word{Event: "lost", Reason: why})
	}
	m.say(foreign.Word{Event: "stateChanged", From: string(was), To: string(s)})
	switch {
	case s == leader:
		m.say(foreign.Word{Event: "leadershipAcquired"})
		m.leading(m.cfg.Instance)
	case was == leader:
		m.say(foreign.Word{Event: "leadershipLost", Reason: why})
	}
}

// leading says whom this member takes for the leader, at each change.
func (m *Member) leading(who string) {
	if m.told != who {
		m.told = who
		m.say(foreign.Word{Event: "leading", Leader: who})
	}
}

func (m *Member) say(w foreign.Word) { m.eff.Words = append(m.eff.Words, w) }
