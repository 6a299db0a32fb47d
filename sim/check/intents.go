package check

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/sim/history"
)

// intents is the state of all intents that the history has shown: the clients' requests, the API's answers, the tuners' pipelines,
// and Redis' data. The checkers of I1 to I6 share this state, and the first of these checkers updates it. A session's state is its
// record in Redis, or, where Redis was not watched, the API's report.
type intents struct {
	w            *world
	requests     map[int64]*request
	wants        map[string]*want // by idempotency key
	sessions     map[string]*intent
	order        []*intent        // all sessions, in order of their first mention
	live         map[*intent]bool // sessions whose record says that they have not ended
	pipelines    []*pipeline      // those that tuners serve now
	staffedSince int64            // since when a worker has always been there; -1: none is there
	apis         map[string]bool  // slots that got requests for starts; false: one that has acquired a lease is a worker as well
	lostAt       int64            // last loss of Redis' data; -1: never
	gapAt        int64            // when the view of Redis was last lost or came back; -1: never
	showing      bool             // a tap shows the data of another master now

	// What the current event is about.
	answered *request  // nil: none, or it stays open
	changed  []*intent // sessions that it may have changed
}

type request struct {
	at      int64
	what    string  // "start", "stop", "bad …"
	want    *want   // of a start
	session *intent // of a stop, or of the answer to a start
}

// want is the content of a start. Starts with the same content share an idempotency key.
type want struct {
	payload  string  // "": nobody has asked for it
	service  string  // the lease that its pipeline needs beside a slot; "": unknown
	open     int     // requests without an answer
	accepted int     // requests
	inForce  *intent // session of the key, as Redis shows it
	until    int64   // when the key expires; 0: never
	first    *intent // first session of the key, at any server; nil: none
	firstAt  int64
	told     bool // I4: a break was reported
}

type intent struct {
	*session
	want      *want  // an empty one: unknown
	asked     int64  // time of the first request that was given the session
	accepted  int64  // time of the first answer that gave the session; 0: none
	created   int64  // time of its first mention
	starts    int    // published starts
	published bool   // start published, at any server
	lost      bool   // another server had its record, but the master that the sentinels know has none
	seen      bool   // the present master has shown its record
	stopped   int64  // when a stop was accepted; 0: none
	state     string // "": no record
	reason    string
	since     int64
	passed    int64  // when its key was given to another session; 0: not yet
	worker    string // worker whose pipeline served it last; "": none
	disorder  spell  // I3: it is not in order
	conflict  spell  // I5: it was accepted beside a running session, and has neither ended nor run
}

// pipeline is what a tuner slot, or a service, serves.
type pipeline struct {
	n     int64
	inst  string
	fence int64
	at    int64
	place string  // name of the lease
	of    *intent // of a slot; nil: unknown
}

const (
	stateRunning = "RUNNING"
	stateEnded   = "ENDED"
	stateGone    = "gone"
)

// Reasons for the end of a session that the judge knows.
const (
	reasonBusy     = "R_LEASE_BUSY"
	reasonNoTuner  = "R_NO_TUNER"
	reasonLost     = "R_LEASE_LOST"
	reasonPipeline = "R_PIPELINE_FAILED"
)

const (
	servicePrefix = "service:"
	tunerPrefix   = "tuner:"
)

func newIntents() *intents {
	return &intents{
		requests: map[int64]*request{}, wants: map[string]*want{}, sessions: map[string]*intent{}, live: map[*intent]bool{},
		apis: map[string]bool{}, lostAt: -1, gapAt: -1, staffedSince: -1,
	}
}

// want returns the content of a start. The key follows from the specification (ADR-003, 3.3), not from the judged code.
func (b *intents) want(payload string) *want {
	sum := sha256.Sum256([]byte("v1:stream.start:" + payload))
	v := b.key(hex.EncodeToString(sum[:]))
	if v.payload == "" {
		v.payload, v.service = payload, servicePrefix+payload
		for range 2 { // a service may contain colons, profile and bucket may not
			v.service = v.service[:max(0, strings.LastIndexByte(v.service, ':'))]
		}
	}
	return v
}

// key returns the content of an idempotency key. Redis may show it a little before the first request for it.
func (b *intents) key(hash string) *want {
	v := b.wants[hash]
	if v == nil {
		v = &want{}
		b.wants[hash] = v
	}
	return v
}

func (b *intents) session(id string) *intent {
	s := b.sessions[id]
	if s == nil {
		s = &intent{session: b.w.fleet.session(id), want: &want{}, created: b.w.now, asked: b.w.now}
		b.sessions[id] = s
		b.order = append(b.order, s)
	}
	return s
}

func (s *intent) ended() bool { return s.state == stateEnded || s.state == stateGone }

// forgiven reports whether Redis may have lost the session: in a loss of data, or because only a former master had it.
func (b *intents) forgiven(s *intent) bool {
	return b.w.allows(lostSessions) && (s.lost || s.asked <= b.lostAt)
}

// take updates the state by the event. The checkers handle the event afterwards.
func (b *intents) take(e *history.Event) {
	b.answered, b.changed = nil, nil
	b.follow(e)
	switch e.Kind {
	case history.Ready, history.Stopped:
		b.staff()
	case history.Exited:
		b.staff()
		b.ends(func(p *pipeline) bool { return p.inst == e.Instance }) // it uses nothing, even if its connections are not closed yet
	case history.Acquired:
		b.apis[e.Node] = false
	case history.Asked:
		b.ask(e)
	case history.Answered:
		b.answer(e)
	case history.Seen, history.RedisState:
		if e.Kind == history.RedisState || !b.w.Tap {
			b.state(e)
		}
	case history.RedisIntent:
		b.published(e)
	case history.RedisKeyed:
		b.keyed(e)
	case history.RedisFlushed, history.RedisUp:
		if e.Kind == history.RedisFlushed || e.Reason == "empty" {
			b.lost()
		}
	case history.TapDown, history.TapUp: // in between, stored records show what was executed, not published events
		b.gapAt = e.T
		b.unknown()
	case history.Arrived:
		b.arrived(e)
	case history.Served, history.Aborted:
		b.ends(func(p *pipeline) bool { return p.place == e.Session && p.n == e.N })
	}
}

func (b *intents) arrived(e *history.Event) {
	p := &pipeline{n: e.N, inst: e.Instance, fence: e.Fence, at: e.T, place: e.Session}
	b.pipelines = append(b.pipelines, p)
	if strings.HasPrefix(e.Session, tunerPrefix) && e.Reason != "" {
		p.of = b.session(e.Reason)
		p.of.worker = e.Instance
		b.changed = append(b.changed, p.of)
	}
}

func (b *intents) ends(which func(*pipeline) bool) {
	b.pipelines = slices.DeleteFunc(b.pipelines, func(p *pipeline) bool {
		over := which(p)
		if over && p.of != nil {
			b.changed = append(b.changed, p.of)
		}
		return over
	})
}

// serving returns a pipeline that serves the session; nil if there is none.
func (b *intents) serving(s *intent) *pipeline {
	for _, p := range b.pipelines {
		if p.of == s {
			return p
		}
	}
	return nil
}

func (b *intents) ask(e *history.Event) {
	r := &request{at: e.T, what: e.Reason}
	b.requests[e.N] = r
	if r.what == "stop" {
		r.session = b.session(e.Session)
	} else {
		r.want = b.want(e.Session)
		r.want.open++
	}
	if _, known := b.apis[e.Node]; !known {
		b.apis[e.Node] = true
		b.staff()
	}
}

// answer handles an API's answer. If the API gave no answer, or did not learn the outcome, the request stays open, because Redis
// may have executed it.
func (b *intents) answer(e *history.Event) {
	r, accepted := b.requests[e.N], strings.HasPrefix(e.Reason, "2")
	if r == nil || !accepted && !strings.HasPrefix(e.Reason, "4") {
		return
	}
	b.answered = r
	if r.want != nil {
		r.want.open--
	}
	switch s := r.session; {
	case !accepted:
	case r.want != nil:
		s = b.session(e.Session)
		r.want.accepted++
		r.session, s.asked = s, min(s.asked, r.at)
		if s.accepted == 0 {
			s.accepted = e.T
		}
		b.changed = append(b.changed, s)
	case r.at > b.lostAt && b.ledSince(b.w.fleet.node(e.Node), r.at):
		b.stops(s)
	}
}

// stops records that the session must end from now on.
func (b *intents) stops(s *intent) {
	if s.stopped == 0 {
		s.stopped, s.disorder.from = b.w.now, b.w.now
		b.changed = append(b.changed, s)
	}
}

func (b *intents) state(e *history.Event) {
	s := b.session(e.Session)
	b.changed = append(b.changed, s)
	s.lost, s.seen = false, true
	state, reason, _ := strings.Cut(e.Reason, " ")
	if state != s.state && (s.state != stateEnded || state != stateGone) { // neither shown again, nor deleted after its time
		b.set(s, state, reason)
	}
}

func (b *intents) set(s *intent, state, reason string) {
	s.state, s.reason, s.since = state, reason, b.w.now
	if s.ended() || state == "" {
		delete(b.live, s)
	} else {
		b.live[s] = true
	}
}
