package virtual

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// Each concern has its own random stream, so a change in one does not alter the draws of the others.
const (
	streamNet   = 0x6e6574
	streamLoad  = 0x6c6f6164
	streamSetup = 0x7365747570
	streamFault = 0x6661756c74
)

const (
	phaseStart = iota
	phaseStorm
	phaseCalm
	phaseEnd
)

var phaseNames = [...]string{phaseStart: "start", phaseStorm: "storm", phaseCalm: "calm", phaseEnd: "end"}

// world is the state of a run. One loop drives it; nothing in it is safe for concurrent use.
type world struct {
	cfg  Config
	t    int64 // true time, ns
	q    loop.Queue
	net  *rand.Rand
	load *rand.Rand
	pick *rand.Rand // for targets of faults
	sink func(history.Event)

	server    *server    // the only server, or the sentinels' master
	servers   []*server  // by number
	sentinels *sentinels // nil: a single server
	nodes     []*node    // slot i is nodes[i-1]
	placement placement  // shared by all cores

	sess    []session // by creation
	sessIdx map[string]int32
	timings policy.Polls
	polls   pollTable
	arrived int64 // number of polls that reached the target

	messages []*message
	free     []int32  // numbers of unused messages
	notices  []notice // by number
	spare    []int32  // numbers of unused notices
	calls    []func() // by number
	vacant   []int32  // numbers of unused calls
	routines []*routine
	idle     []*coroutine // without a routine
	current  *routine     // the running routine
	intents  *intentWorld
	pids     int64
	gens     uint32 // last generation of a term or poll

	plan   []strike
	edges  *edges // nil: events are not moved to edges
	phase  int
	events uint64
	entry  LogEntry // the entry being logged
	out    Outcome
}

// session is the state of a session at the application, the target and the oracle.
type session struct {
	id       string
	fence    int64         // highest that the target accepted
	slow     time.Duration // minimum serving time of the target
	hang     int
	believed []believer
	granted  int64 // highest fence granted to an instance
	excused  int64 // true time until which a deleted key excuses overlaps
	paused   int
	gone     bool
	heedless bool // its polls ignore their context
}

// heedless reports whether a session's polls ignore their context, as a quarter do. Long polls must not, as they outlast the trust
// window.
func heedless(cfg *Config, id string) bool {
	return cfg.Election == nil && cfg.Foreign == nil && !cfg.LongPolls && id != "" && id[len(id)-1] < '4'
}

func newWorld(cfg Config, plan fault.Plan, seed uint64, emit func(history.Event)) *world {
	w := &world{
		cfg: cfg, sink: emit,
		net:  rand.New(rand.NewPCG(seed, streamNet)),
		load: rand.New(rand.NewPCG(seed, streamLoad)),
		pick: rand.New(rand.NewPCG(seed, streamFault)),

		sessIdx: map[string]int32{}, edges: newEdges(cfg, seed),
		timings: policy.Polls{
			Interval: core.Time(cfg.Poll), Timeout: core.Time(cfg.PollTimeout), Long: cfg.LongPolls,
		},
	}
	setup := rand.New(rand.NewPCG(seed, streamSetup))
	w.server = w.addServer("")
	w.server.Clock = loop.Clock{Wall: epochNs + spread(setup, int64(cfg.Clock.Offset)), PPM: cfg.Clock.rate(setup)}
	if cfg.replicated() {
		w.replicate(seed)
	}
	if cfg.Intents == nil {
		for range cfg.Sessions {
			w.addSession()
		}
		w.putSessions()
	}
	if !cfg.Unannounced {
		w.server.Bootstrap()
	}
	for range cfg.Nodes {
		n := w.addNode(setup)
		w.q.Push(loop.Event{At: setup.Int64N(int64(50 * time.Millisecond)), Kind: evSpawn, Node: int32(n.slot - 1)})
	}
	w.schedule(plan)
	if w.sentinels != nil {
		w.watchMaster()
	}
	if cfg.Intents != nil {
		w.startIntents(seed)
	}
	return w
}

// addServer adds the first server or, with a label, another one.
func (w *world) addServer(label string) *server {
	cfg, s := &w.cfg, &server{number: int32(len(w.servers))}
	rc := redis.Config{
		Options: redisstore.Options{Quarantine: cfg.TTL, Replicas: cfg.Replicas}, Label: label,
		Local: cfg.Local && !cfg.replicated(), Lua: cfg.Lua, Loaded: cfg.Loaded,
		Script: cfg.Seams.Script, Begun: cfg.Seams.Begun, Older: cfg.Seams.older,
		Wrote:   func(c redis.Change) { w.wrote(s, c) },
		Publish: func(no core.Notice) { w.deliver(notice{Notice: no}, s.number, 100+40*len(no.IDs)) },
		Shout:   func(text string) { w.deliver(notice{text: text}, s.number, 60+len(text)) },
		Named: func(id string) {
			w.sessIdx[id] = int32(len(w.sess))
			w.sess = append(w.sess, session{id: id, heedless: heedless(cfg, id)})
		},
	}
	var like *redis.Server
	if label != "" {
		like, rc.Runs = w.servers[0].Server, 1
	}
	if cfg.Intents != nil {
		rc.Options = intentOptions(cfg)
	}
	s.Server = redis.New(rc, like)
	w.servers = append(w.servers, s)
	return s
}

// epochNs is the wall time at true time zero, 2024-01-01. Fences are microseconds of Redis' clock.
const epochNs = int64(1_704_067_200) * int64(time.Second)

// spread draws from [-d, d].
func spread(r *rand.Rand, d int64) int64 {
	if d <= 0 {
		return 0
	}
	return r.Int64N(2*d+1) - d
}

// upTo draws from [0, d), 0 if d is not positive.
func upTo(r *rand.Rand, d int64) int64 {
	if d <= 0 {
		return 0
	}
	return r.Int64N(d)
}

const million = int64(1_000_000)

// chance returns true with a probability of ppm per million.
func chance(r *rand.Rand, ppm int64) bool { return ppm > 0 && r.Int64N(million) < ppm }

const stopEvery = 1 << 12

func (w *world) run() {
	defer w.endRoutines()
	for w.phase != phaseEnd {
		if w.events%stopEvery == 0 && w.cfg.Stop != nil && w.cfg.Stop() {
			w.out.Stopped = true
			return
		}
		e := w.q.Pop()
		w.t = e.At
		w.events++
		w.dispatch(&e)
		if w.sentinels != nil {
			w.hearEachOther()
			w.tellServers()
		}
	}
}

func (w *world) dispatch(e *loop.Event) {
	switch e.Kind {
	case evArrive, evExec:
		w.serverEvent(e)
	case evPollArrive:
		w.pollArrives(e.Arg, e.Gen)
	case evPollServed:
		w.pollServed(e.Arg, e.Gen)
	case evLeaseExpiry, evBeatExpiry:
		w.expires(e)
	case evSpawn:
		w.spawn(w.nodes[e.Node])
	case evFaultStart, evFaultEnd, evFlap, evSnapshot:
		w.faultEvent(e)
	case evSessionsBack:
		w.putSessions()
	case evOracle:
		w.suspect(e.Arg)
	case evPhase:
		w.enter(int(e.Arg))
	case evCall:
		w.take(e.Arg)()
	case evCount:
		w.countAll()
	default:
		w.nodeEvent(w.nodes[e.Node], e)
	}
}

func (w *world) enter(phase int) {
	w.phase = phase
	if phase == phaseCalm {
		w.healAll()
	}
	w.emit(history.Event{Kind: history.Phase, Reason: phaseNames[phase]})
}

func (w *world) emit(e history.Event) {
	if w.sink != nil {
		e.T = w.t
		w.sink(e)
	}
}

func (w *world) addSession() {
	var raw uuid.UUID
	binary.BigEndian.PutUint64(raw[:8], w.load.Uint64())
	binary.BigEndian.PutUint64(raw[8:], w.load.Uint64())
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	id := raw.String()
	if w.cfg.Lease != "" {
		id = w.cfg.Lease
	}
	w.server.Lease(id)
	w.emit(history.Event{Kind: history.SessionAdded, Session: id})
}

func (w *world) pause(i int32, by int) {
	s := &w.sess[i]
	was := s.paused > 0
	s.paused += by
	is := s.paused > 0
	if is == was {
		return
	}
	w.putSessions()
	kind := history.SessionResumed
	if is {
		kind = history.SessionPaused
	}
	w.emit(history.Event{Kind: kind, Session: s.id})
}

func (w *world) putSessions() {
	ids := make([]string, 0, len(w.sess))
	for i := range w.sess {
		if s := &w.sess[i]; !s.gone && s.paused == 0 {
			ids = append(ids, s.id)
		}
	}
	for _, s := range w.servers {
		s.SetSessions(core.NewSessions(ids))
	}
}

func (w *world) outcome() Outcome {
	out := w.out
	out.Steps, out.VirtualNs = w.events, w.t
	out.Owned = make([]int, len(w.nodes))
	out.Living = make([]bool, len(w.nodes))
	for i, n := range w.nodes {
		if n.alive && !n.draining {
			out.Alive++
			out.Living[i] = true
		}
	}
	for i := range w.sess {
		s := &w.sess[i]
		owned := false
		for _, b := range s.believed {
			if w.believes(b) {
				owned = true
				out.Owned[b.node]++
			}
		}
		wanted := !s.gone && s.paused == 0
		if wanted && !owned {
			out.Unowned++
		}
		if !wanted && owned {
			out.Misowned++
		}
	}
	return out
}

func (w *world) note(format string, args ...any) {
	w.emit(history.Event{Kind: history.Note, Reason: fmt.Sprintf(format, args...)})
}
