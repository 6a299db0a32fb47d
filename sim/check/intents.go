package check

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// intents is the state of all intents that the history has shown: the clients' requests, the API's answers, and Redis' data. The checkers
// of I1 to I6 share it, and the first of them updates it. A session's state is its record in Redis, or, where Redis was not watched, the
// API's report.
type intents struct {
	w            *world
	requests     map[int64]*request
	wants        map[string]*want // by "service:profile:bucket"
	byHash       map[string]*want // by idempotency key
	sessions     map[string]*intent
	running      map[string]*intent // sessions whose record says RUNNING
	order        []*intent          // all sessions, in order of their first mention
	streams      map[int64]*served
	touched      *intent         // session of the pipeline in the current event; nil: none
	staffedSince int64           // since when a worker has always been there; -1: none is there
	asked        map[string]bool // slots with an API
	acquirers    map[string]bool // slots that have acquired a lease
	inUse        map[string]int  // sessions that have not ended, by the lease of their service
	unplaced     int             // sessions that have not ended and whose start is unknown
	lostAt       int64           // last loss of Redis' data; -1: never
	unknownAt    int64           // when Redis' data was last unknown and had to be shown again
	gapAt        int64           // last time without a view of Redis; -1: never
	showing      bool            // a tap shows Redis' data now
	shown        bool            // the current event is the first after that
}

type request struct {
	n        int64
	at       int64
	what     string // "start", "stop", "bad …"
	want     *want  // of a start
	session  string // of a stop
	answered bool
}

// want is the content of a start. Starts with the same content share an idempotency key.
type want struct {
	payload  string
	service  string
	hash     string
	open     int // requests without an answer
	accepted int
	rejected int
	inForce  *intent // session of the key, as Redis shows it
	keyedAt  int64   // when Redis last showed the key
	since    int64   // start of inForce
	until    int64   // when the key expires; 0: never
}

type intent struct {
	id        string
	want      *want // nil: unknown
	asked     int64 // time of the first request that was given the session
	accepted  int64 // time of the first answer that gave the session; 0: none
	created   int64 // time of its first mention
	starts    int
	published bool  // start published, at any server
	lost      bool  // another server had its record, but the master that the sentinels know has none
	seen      bool  // the present master has shown its record
	stopped   int64 // when a stop was accepted; 0: none
	state     string
	reason    string
	since     int64
	passed    int64    // when its key was given to another session; 0: not yet
	pending   *pending // I3: wait until it is in order; nil: it is in order
	conflict  *wait    // I5: from its acceptance beside a running session until it has ended or runs; nil: no conflict
	uses      string   // lease of its service while it has not ended; "?": unknown; "": ended
	worker    string   // worker whose pipeline served it last; "": none
	serving   []*served
}

type served struct {
	of   *intent
	inst string
}

const (
	stateRunning = "RUNNING"
	stateEnded   = "ENDED"
	stateGone    = "gone"
)

// Reasons that a worker gives when the Redis that returned has other data.
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

// want returns the content of a start. The key follows from the specification (ADR-003, 3.3), not from the judged code.
func (b *intents) want(payload string) *want {
	v := b.wants[payload]
	if v == nil {
		sum := sha256.Sum256([]byte("v1:stream.start:" + payload))
		v = &want{payload: payload, hash: hex.EncodeToString(sum[:])}
		v.service = payload
		for range 2 { // a service may contain colons, profile and bucket may not
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

// service returns the lease that its pipeline needs beside a slot; "" if unknown.
func (s *intent) service() string {
	if s.want == nil {
		return ""
	}
	return servicePrefix + s.want.service
}

// forgiven reports whether Redis may have lost the session: with its data, or because another server had it.
func (b *intents) forgiven(s *intent) bool { return s.lost || s.asked <= b.lostAt }

// outlived reports whether the session was requested before Redis lost its data or another server became the master.
func (b *intents) outlived(s *intent) bool {
	return b.forgiven(s) || b.w.servers.switched > 0 && s.asked <= b.w.servers.switched
}

// take updates the state by the event. The checkers handle the event afterwards.
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
			b.gapAt = e.T // until now, stored records show what was executed, not published events
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

// detected records that a script has seen a loss of data, as a node reported. With replicas the new epoch shows that instead: the report
// may be about an earlier loss.
func (b *intents) detected() {
	if !b.w.replicated() {
		b.w.lossDetected()
	}
}

// left handles the end of a process that was asked to stop. A fault may have kept it from signing off.
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

// availableSince returns the earliest time, not before since, from which a worker has been there.
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
	if r == nil || r.answered || isNone(e.Reason) { // without an answer the request stays open: it may have been executed
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

// isNone reports whether an answer leaves the result open: there was none, or the API could not know.
func isNone(status string) bool {
	return !strings.HasPrefix(status, "2") && !strings.HasPrefix(status, "4")
}

func (b *intents) state(e *history.Event) {
	s := b.session(e.Session)
	s.lost, s.seen = false, true
	state, reason, _ := strings.Cut(e.Reason, " ")
	if state == s.state || s.state == stateEnded && state == stateGone { // shown again, or deleted after its time
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
