package check

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// intents is what the history has shown of intents so far: what clients asked for, what the API answered, what Redis holds.
// The checkers of I1 to I6 share it; the first of them keeps it up to date. A session's state is Redis' record of it,
// or, where Redis was not watched, what the API reported.
type intents struct {
	w            *world
	requests     map[int64]*request
	wants        map[string]*want // by "service:profile:bucket"
	byHash       map[string]*want // by idempotency key
	sessions     map[string]*intent
	running      map[string]*intent // of these, those whose record says so
	order        []*intent          // of sessions, by when they were first heard of
	streams      map[int64]*served
	touched      *intent         // whose pipeline the event in hand is; nil: it is of none
	staffedSince int64           // since when a worker has been there all the time; -1: none is there
	asked        map[string]bool // slots that have an API
	acquirers    map[string]bool // slots that have acquired a lease
	inUse        map[string]int  // by the lease of a service: its sessions that have not ended
	unplaced     int             // sessions that have not ended, and of which it is not known what they want
	lostAt       int64           // when Redis last lost its data; -1: never
	unknownAt    int64           // when what it holds had to be seen again last
	gapAt        int64           // when what Redis does was last not seen; -1: never
	showing      bool            // what that holds is being shown
	shown        bool            // the event in hand is the first after that
}

type request struct {
	n        int64
	at       int64
	what     string // "start", "stop", "bad …"
	want     *want  // of a start
	session  string // of a stop
	answered bool
}

// want is what starts ask for: all that ask for the same share an idempotency key.
type want struct {
	payload  string
	service  string
	hash     string
	open     int // requests that were not answered
	accepted int
	rejected int
	inForce  *intent // whom the key answers with, as Redis shows it
	keyedAt  int64   // when it showed that last
	since    int64   // since then
	until    int64   // when Redis lets it go by itself; 0: never
}

// intent is one session.
type intent struct {
	id        string
	want      *want // nil: not known yet
	asked     int64 // when the first request was sent that was given it
	accepted  int64 // when the first answer came that gave it; 0: none did
	created   int64 // when it was first heard of
	starts    int   // published
	published bool  // also at a server that is not the master that the sentinels know
	lost      bool  // the master that the sentinels know has no record of it: another had
	seen      bool  // it has, as what it holds was shown last
	stopped   int64 // when a stop was accepted; 0: none was
	state     string
	reason    string
	since     int64    // of the state
	passed    int64    // when the key was given to another session; 0: it was not
	pending   *pending // I3: it is not in order; nil: it is
	conflicts int64    // I5: when it was accepted beside another that ran, until it has ended or runs; 0: it is not
	uses      string   // the lease of its service while it has not ended; "?": that is not known; "": it has ended
	worker    string   // whose pipeline served it last; "": none did
	serving   []*served
}

// served is a pipeline at a tuner.
type served struct {
	of   *intent
	inst string
}

const (
	stateRunning = "RUNNING"
	stateEnded   = "ENDED"
	stateGone    = "gone"
)

// Reasons by which a worker says that Redis came back as another one.
const (
	reasonQuarantine = "quarantine"
	reasonForgot     = "redis forgot"
)

const (
	servicePrefix = "service:"
	tunerPrefix   = "tuner:"
)

func newIntents() *intents {
	return &intents{
		requests: map[int64]*request{}, wants: map[string]*want{}, byHash: map[string]*want{},
		sessions: map[string]*intent{}, running: map[string]*intent{}, streams: map[int64]*served{}, lostAt: -1, gapAt: -1, staffedSince: -1,
		asked: map[string]bool{}, acquirers: map[string]bool{}, inUse: map[string]int{},
	}
}

// want returns what a payload asks for. Its key follows from the specification (ADR-003, 3.3), not from the code that is judged.
func (b *intents) want(payload string) *want {
	v := b.wants[payload]
	if v == nil {
		sum := sha256.Sum256([]byte("v1:stream.start:" + payload))
		v = &want{payload: payload, hash: hex.EncodeToString(sum[:])}
		v.service = payload
		for range 2 { // neither profile nor bucket has a colon, a service may
			v.service = v.service[:max(0, strings.LastIndexByte(v.service, ':'))]
		}
		b.wants[payload], b.byHash[v.hash] = v, v
	}
	return v
}

func (b *intents) session(id string) *intent {
	s := b.sessions[id]
	if s == nil {
		s = &intent{id: id, created: b.w.now, asked: b.w.now}
		b.sessions[id] = s
		b.order = append(b.order, s)
	}
	return s
}

func (s *intent) ended() bool { return s.state == stateEnded || s.state == stateGone }

// service names the lease that its pipeline needs beside a slot's; "" while that is not known.
func (s *intent) service() string {
	if s.want == nil {
		return ""
	}
	return servicePrefix + s.want.service
}

// forgiven reports whether Redis lost its data after the session was asked for, or that session: nobody can know of it any more.
func (b *intents) forgiven(s *intent) bool { return s.lost || s.asked <= b.lostAt }

// outlived reports whether the session was asked for before Redis lost its data, or another server's data took its place.
func (b *intents) outlived(s *intent) bool {
	return b.forgiven(s) || b.w.servers.switched > 0 && s.asked <= b.w.servers.switched
}

// take brings the book up to the event. The checkers see the event afterwards.
func (b *intents) take(e *history.Event) {
	b.touched = nil
	b.follow(e)
	switch e.Kind {
	case history.Ready, history.Stopped:
		b.staff()
	case history.Exited:
		b.staff()
		b.left(e)
	case history.Acquired:
		b.acquirers[e.Node] = true
	case history.AcquireFailed, history.RenewFailed: // the first script that sees the loss begins the quarantine
		if strings.HasPrefix(e.Reason, reasonQuarantine) || strings.HasPrefix(e.Reason, reasonForgot) {
			b.detected()
		}
	case history.Asked:
		if !b.asked[e.Node] {
			b.asked[e.Node] = true
			b.staff()
		}
		b.ask(e)
	case history.Answered:
		b.answer(e)
	case history.Seen:
		if !b.w.Tap {
			b.state(e)
		}
	case history.RedisState:
		b.state(e)
	case history.RedisIntent:
		b.published(e)
	case history.RedisFlushed:
		b.lost()
	case history.RedisUp:
		if e.Reason == "empty" {
			b.lost()
		}
	case history.TapDown:
		b.gapAt = e.T
		b.unknown()
	case history.TapUp:
		if b.gapAt >= 0 {
			b.gapAt = e.T // what was executed until now is shown by what is stored, not by what was published
		}
	case history.Arrived:
		if strings.HasPrefix(e.Session, tunerPrefix) && e.Reason != "" {
			s := b.session(e.Reason)
			p := &served{s, e.Instance}
			s.serving, s.worker = append(s.serving, p), e.Instance
			b.streams[e.N], b.touched = p, s
		}
	case history.Served, history.Aborted:
		if p := b.streams[e.N]; p != nil && strings.HasPrefix(e.Session, tunerPrefix) {
			p.of.serving = slices.DeleteFunc(p.of.serving, func(q *served) bool { return q == p })
			delete(b.streams, e.N)
			b.touched = p.of
		}
	}
}

// staff follows whether a worker is there. A process that is asked for starts and has never acquired a lease is an API only.
func (b *intents) staff() {
	for _, n := range b.w.nodes {
		if i := n.current; i != nil && i.ready && !i.gone && (b.acquirers[n.name] || !b.asked[n.name]) {
			if b.staffedSince < 0 {
				b.staffedSince = b.w.now
				b.detected()
			}
			return
		}
	}
	b.staffedSince = -1
}

// detected: a script has seen what Redis lost, by the nodes' words. With replicas the epoch that it began shows it, because words may be of
// the one before.
func (b *intents) detected() {
	if !b.w.replicated() {
		b.w.lossDetected()
	}
}

// left: a process that was asked to stop has ended. Where a fault of its own or of Redis met the stop, it may not have signed off.
func (b *intents) left(e *history.Event) {
	i := b.w.instances[e.Instance]
	if i == nil || i.killed {
		return
	}
	for _, stop := range slices.Backward(b.w.injections) {
		if !stop.has(fault.Stops) || stop.node != i.node {
			continue
		}
		if b.w.hindered(i.node, stop.start, b.w.now, stop) != nil {
			stop.endedUnclean = e.T
		}
		return
	}
}

// availableSince is from when on, at the earliest, a worker is there that can do what is due since then.
func (b *intents) availableSince(since int64) int64 {
	if b.staffedSince < 0 {
		return b.w.now
	}
	return max(since, b.staffedSince)
}

func (b *intents) ask(e *history.Event) {
	r := &request{n: e.N, at: e.T, what: e.Reason}
	if r.what == "stop" {
		r.session = e.Session
	} else {
		r.want = b.want(e.Session)
		r.want.open++
	}
	b.requests[e.N] = r
}

func (b *intents) answer(e *history.Event) {
	r := b.requests[e.N]
	if r == nil || r.answered || isNone(e.Reason) { // without an answer it stays open: it may have been heard
		return
	}
	r.answered = true
	switch {
	case r.want == nil:
		if e.Reason == "202" {
			if s := b.session(r.session); s.stopped == 0 && r.at > b.lostAt && b.ledSince(e.Node, r.at) {
				s.stopped = e.T
			}
		}
	case e.Reason == "202":
		r.want.open--
		r.want.accepted++
		s := b.session(e.Session)
		s.asked = min(s.asked, r.at)
		if s.accepted == 0 {
			s.accepted = e.T
		}
	case strings.HasPrefix(e.Reason, "4"):
		r.want.open--
		r.want.rejected++
	}
}

// isNone reports whether the answer leaves open what happened: there was none, or the API could not know.
func isNone(status string) bool {
	return !strings.HasPrefix(status, "2") && !strings.HasPrefix(status, "4")
}

func (b *intents) state(e *history.Event) {
	s := b.session(e.Session)
	s.lost, s.seen = false, true
	state, reason, _ := strings.Cut(e.Reason, " ")
	if state == s.state || s.state == stateEnded && state == stateGone { // seen again; forgotten after its time
		return
	}
	s.state, s.reason, s.since = state, reason, e.T
	if state == stateRunning {
		b.running[s.id] = s
	} else {
		delete(b.running, s.id)
	}
	b.count(s)
}

// count follows whether the session uses its service.
func (b *intents) count(s *intent) {
	was, is := s.uses, ""
	switch {
	case s.ended() || s.state == "":
	case s.want == nil:
		is = "?"
	default:
		is = s.service()
	}
	if s.uses = is; was == is {
		return
	}
	for name, by := range map[string]int{was: -1, is: 1} {
		switch name {
		case "":
		case "?":
			b.unplaced += by
		default:
			b.inUse[name] += by
		}
	}
}

func (b *intents) place(s *intent, v *want) {
	s.want = v
	b.count(s)
}

func (b *intents) lost() {
	b.lostAt = b.w.now
	b.unknown()
	clear(b.running)
	for _, s := range b.order {
		s.state, s.reason, s.since, s.stopped = "", "", b.w.now, 0
		b.count(s)
		if s.pending != nil {
			s.pending.since = b.w.now
		}
	}
}

// unknown: what Redis holds has to be seen again.
func (b *intents) unknown() {
	b.unknownAt = b.w.now
	for _, v := range b.wants {
		v.inForce = nil
	}
}
