package virtual

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

// Run plays plan against a fleet and passes every event to emit (which may be nil), in order of time. It is a pure function and safe for
// concurrent use. An error wraps ErrConfig or names an impossible fault; then nothing ran.
func Run(cfg Config, plan fault.Plan, seed uint64, emit func(history.Event)) (Outcome, error) {
	if err := cfg.Validate(); err != nil {
		return Outcome{}, err
	}
	for i, f := range plan.Faults {
		if err := f.Possible(true); err != nil {
			return Outcome{}, fmt.Errorf("fault %d of the plan: %w", i+1, err)
		}
	}
	w := newWorld(cfg.withDefaults(), plan, seed, emit)
	w.run()
	return w.outcome(), nil
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

// heedless reports whether a session's polls ignore their context, as a quarter do. Long polls must not, as they outlast the trust
// window.
func heedless(cfg *Config, id string) bool {
	return cfg.Election == nil && cfg.Foreign == nil && !cfg.LongPolls && id != "" && id[len(id)-1] < '4'
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
