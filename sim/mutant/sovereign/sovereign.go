// Package sovereign is leader election exactly as the documentation of the Sovereign library's Redis backend describes it, with its split
// brains. It is the mutant of the election system. docs/election.md shows the storm's findings.
//
// Where the documentation is silent, the package uses the most favorable interpretation:
//
//   - A leader without a heartbeat key is stale only once the follower has not seen one for leader TTL + 5 s, because a leader sends its
//     first heartbeat up to an interval after its election.
//   - "Forcibly attempts election" deletes the leader key and sets it again, because SET NX cannot succeed otherwise.
//   - A stopping leader ceases to lead before it releases the key.
//   - A command that fails or is not answered changes nothing: the next cycle retries.
package sovereign

import (
	"strconv"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/foreign"
)

// Config is a member's configuration. Every field except StartDelay must be set.
type Config struct {
	Instance        string
	LeaderKey       string
	HeartbeatPrefix string
	TTL             time.Duration // of the leader key
	Grace           time.Duration // extra life of heartbeats, after which they are stale: 5 s at a TTL of 30 s
	Election        time.Duration // between election cycles
	Heartbeat       time.Duration // between heartbeats
	StartDelay      time.Duration // before the first cycle
}

// state is one of the three documented states.
type state string

const (
	follower  state = "FOLLOWER"
	candidate state = "CANDIDATE"
	leader    state = "LEADER"
)

// step is the pending step of the election task, with its documented name.
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
	waits   uint64 // command whose reply is pending; 0: none
	coup    bool   // this attempt follows a deposition
	other   string // leader whose health is being checked
	seen    string // leader of the last checked heartbeat
	fresh   time.Duration
	told    string // last announced leader
	stopped bool

	now  time.Duration
	wall time.Time
	eff  foreign.Effects
}

// New returns a member, which its first Step starts.
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

// tasks runs the due tasks. It starts no cycle while another waits for Redis.
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

// ms formats a time to live in milliseconds, because a fast run has TTLs of fractional seconds.
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

// failed handles an unknown result. A leader continues to lead.
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
	case m.cfg.Instance: // another member may hold it by then: EXPIRE does not check
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

// stale is heartbeatAge > leaderTTL + 5 s, measured with the clocks of two machines.
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
	case m.other != "" && !m.coup: // check again whether the heartbeat is stale
		m.health(rechecking)
	default:
		m.lose("held")
	}
}

// recheck is the forced takeover of a leader with a stale heartbeat and a live key.
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

// stop is releaseLeadership, then exit.
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

// become is transitionTo, with the documented events.
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

// leading announces the member's current leader at each change.
func (m *Member) leading(who string) {
	if m.told != who {
		m.told = who
		m.say(foreign.Word{Event: "leading", Leader: who})
	}
}

func (m *Member) say(w foreign.Word) { m.eff.Words = append(m.eff.Words, w) }
