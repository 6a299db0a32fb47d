package virtual

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

// world is the state of a run: its parts, each with its own state. One loop drives it; nothing in it is safe for concurrent use.
type world struct {
	*timeline
	net      *network
	servers  *servers
	fleet    *fleet
	app      *application
	target   *target
	oracle   *oracle
	storm    *storm
	routines *routines
	intents  *intentWorld // nil: another system
	events   uint64
}

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
	tl := &timeline{
		cfg: cfg, sink: emit,
		netRand: rand.New(rand.NewPCG(seed, streamNet)),
		load:    rand.New(rand.NewPCG(seed, streamLoad)),
	}
	setup := rand.New(rand.NewPCG(seed, streamSetup))
	w := &world{timeline: tl, net: &network{timeline: tl}, routines: &routines{timeline: tl}}
	w.servers = &servers{timeline: tl, net: w.net}
	w.app = &application{timeline: tl, servers: w.servers, index: map[string]int32{}}
	w.target = &target{timeline: tl, app: w.app}
	w.fleet = &fleet{
		timeline: tl, net: w.net, servers: w.servers, app: w.app, target: w.target, routines: w.routines,
		said:    map[string]int{},
		timings: policy.Polls{Interval: core.Time(cfg.Poll), Timeout: core.Time(cfg.PollTimeout), Long: cfg.LongPolls},
	}
	w.oracle = &oracle{timeline: tl, fleet: w.fleet}
	w.storm = &storm{
		timeline: tl, net: w.net, servers: w.servers, fleet: w.fleet, app: w.app, oracle: w.oracle,
		pick: rand.New(rand.NewPCG(seed, streamFault)),
	}
	if cfg.Net.Edge > 0 {
		w.storm.edges = &edges{storm: w.storm, r: rand.New(rand.NewPCG(seed, streamEdges))}
		w.net.edge = w.storm.edges.held
	}
	w.net.servers, w.fleet.oracle, w.fleet.newProgram = w.servers, w.oracle, w.newProgram
	w.servers.named, w.servers.granted, w.servers.emptied = w.app.named, w.fleet.thawWitness, w.app.restoreSoon
	w.servers.addFirst(setup)
	if cfg.replicated() {
		w.servers.replicate(seed)
	}
	if cfg.Guest != nil {
		for _, s := range w.servers.all {
			s.sweep()
		}
	}
	if cfg.Intents == nil {
		for range cfg.Sessions {
			w.app.add()
		}
		w.app.put()
	}
	if !cfg.Unannounced {
		w.servers.master.Bootstrap()
	}
	for range cfg.Nodes {
		n := w.fleet.add(setup)
		w.after(setup.Int64N(int64(50*time.Millisecond)), n.spawn)
	}
	if cfg.Fork > 0 {
		w.after(int64(cfg.Start+cfg.Fork), func() {
			*tl.netRand, *tl.load = *rand.New(rand.NewPCG(cfg.ForkSeed, streamNet)), *rand.New(rand.NewPCG(cfg.ForkSeed, streamLoad))
		})
	}
	w.storm.schedule(plan, w.enter)
	if w.servers.sentinels != nil {
		w.servers.sentinels.watchMaster()
	}
	if cfg.Intents != nil {
		w.intents = startIntents(w.fleet, seed)
	}
	return w
}

const stopEvery = 1 << 12

func (w *world) run() {
	defer w.routines.end()
	defer w.fleet.end()
	var e loop.Event // one for the whole run: each would be allocated, because handlers get its address
	for w.phase != phaseEnd {
		if w.events%stopEvery == 0 && w.cfg.Stop != nil && w.cfg.Stop() {
			w.out.Stopped = true
			return
		}
		e = w.q.Pop()
		w.t = e.At
		w.events++
		w.dispatch(&e)
		if w.servers.sentinels != nil {
			w.servers.sentinels.hearEachOther()
			w.servers.sentinels.tellServers()
		}
	}
}

func (w *world) dispatch(e *loop.Event) {
	switch e.Kind {
	case evArrive, evExec:
		w.servers.event(e)
	case evPollArrive:
		w.target.arrives(e.Arg, e.Gen)
	case evPollServed:
		w.target.serves(e.Arg, e.Gen)
	case evLeaseExpiry, evBeatExpiry:
		w.servers.expires(e)
	case evFaultStart, evFaultEnd:
		w.storm.event(e)
	case evCall:
		w.take(e.Arg)()
	default:
		w.fleet.nodes[e.Node].event(e)
	}
}

func (w *world) enter(phase int) {
	w.phase = phase
	if phase == phaseCalm {
		w.storm.healAll()
	}
	w.emit(history.Event{Kind: history.Phase, Reason: phaseNames[phase]})
}

func (w *world) outcome() Outcome {
	out := w.out
	out.Steps, out.VirtualNs = w.events, w.t
	out.Owned = make([]int, len(w.fleet.nodes))
	out.Living = make([]bool, len(w.fleet.nodes))
	for i, n := range w.fleet.nodes {
		if n.alive && !n.draining {
			out.Alive++
			out.Living[i] = true
		}
	}
	for i := range w.app.sessions {
		owners := w.oracle.owners(int32(i))
		for _, b := range owners {
			out.Owned[b.node]++
		}
		switch wanted, owned := w.app.sessions[i].wanted(), len(owners) > 0; {
		case wanted && !owned:
			out.Unowned++
		case !wanted && owned:
			out.Misowned++
		}
	}
	return out
}

func (w *world) newProgram(n *node) program {
	if n.cfg.Guest != nil {
		return &guestNode{n: n}
	}
	if n.cfg.Foreign != nil {
		delay := time.Duration(upTo(n.load, int64(n.cfg.TTL)/3))
		if m := n.cfg.Foreign(Instance{n.slot, n.instance, delay}); m != nil {
			return &foreigner{n: n, machine: m}
		}
	}
	switch {
	case n.cfg.Election != nil:
		return newCampaign(n)
	case n.cfg.Intents != nil:
		return w.intents.newNode(n)
	}
	return nil
}
