package virtual

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/intentnames"
	"github.com/leasestorm/leasestorm/internal/membership"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease"
	prod "github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/api"
	"github.com/leasestorm/leasestorm/lease/intent/store"
	"github.com/leasestorm/leasestorm/sim/client"
	"github.com/leasestorm/leasestorm/sim/foreign"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

func (h intentHold) Name() string { return h.id }

func (h intentHold) Valid() bool {
	tm := h.term()
	return tm != nil && h.p.n.shell.trusts(tm, h.p.n.t)
}

func (h intentHold) term() *term {
	if _, tm := h.p.n.shell.term(h.id); tm != nil && tm.gen == h.gen {
		return tm
	}
	return nil
}

func (iw *intentWorld) newNode(n *node) *intentNode {
	p := &intentNode{iw: iw, n: n, role: n.cfg.Intents.Role(n.slot), open: map[int64]func(int, []byte){}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// never replaces the timeouts of production code, because the model handles timeouts.
const never = 24 * time.Hour

// poolSize exceeds a process' routines: a routine that waits for a connection would block the run.
const poolSize = 1 << 12

// bufferSize is small, because a run makes hundreds of connections with a few commands each.
const bufferSize = 512

func (p *intentNode) dial(patience time.Duration) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: "model:0", Protocol: 2, ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			return &redis.Conn{Ask: func(args []string) (redis.Reply, error) { return p.ask(args, patience) }}, nil
		},
	})
}

func (p *intentNode) ask(args []string, patience time.Duration) (v redis.Reply, err error) {
	r := p.n.fleet.routines.current
	if r == nil || r.dead {
		return nil, errReset
	}
	for i, arg := range args {
		if strings.EqualFold(arg, "BLOCK") && i+1 < len(args) {
			ms, _ := time.ParseDuration(args[i+1] + "ms")
			patience += ms
		}
	}
	p.n.request(foreign.Command{Args: args}, patience, func(got redis.Reply, failed error) {
		v, err = got, failed
		r.wake()
	})
	if !r.park() {
		return nil, errReset
	}
	return v, err
}

func (p *intentNode) storeOptions() store.Options {
	c := &p.n.cfg
	return store.Options{
		Names: prod.ADR003(), OpTimeout: never, PoolSize: poolSize,
		Leases: lease.Config{TTL: c.TTL, RenewInterval: c.Renew, OpTimeout: c.OpTimeout, Replicas: c.Replicas},
	}
}

// must panics on an error, which only a bug of this engine causes.
func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("virtual: %v", err))
	}
	return v
}

func (p *intentNode) leases() bool { return p.role != roleAPI }

func (p *intentNode) start() {
	n, iw := p.n, p.iw
	client, patient := p.dial(storePatience), p.dial(n.cfg.OpTimeout)
	defer client.Close() // stores have their own connections
	defer patient.Close()
	p.store = must(store.New(client, p.storeOptions()))
	if p.role != roleWorker {
		p.handler = must(api.NewHandler(p.store, api.Config{
			Logger: zap.NewNop(), Quotas: api.Quotas{StartRate: -1, Backlog: -1},
			Names: prod.ADR003(), Tokens: intentTokens, LeaseFirst: n.cfg.Intents.Phase1 != nil && n.cfg.Intents.Phase1(n.slot),
			NewID: func() (uuid.UUID, error) { return iw.uuid(n.clock.WallAt(n.t)), nil },
		}))
	}
	if p.role == roleAPI {
		p.ready()
		return
	}
	p.machine = intent.New(membership.Settings(&intentnames.ADR003, n.instance, iw.slots, n.cfg.TTL, storePatience))
	p.bus = must(intentbus.Open(p.store, n.instance))
	options := n.cfg.storeOptions()
	options.OpTimeout, options.PoolSize = never, poolSize
	p.leasesOf = must(redisstore.New(patient, options))
	p.member = p.newMember()
	p.jobs = p.newJobs()
	p.beating = true
	n.fleet.routines.begin(n, func(*routine) {
		err := p.member.Join(p.ctx)
		p.beatOver()
		switch {
		case errors.Is(err, context.Canceled): // it is stopping
			return
		case err != nil:
			n.after(0, func() { p.exit(err.Error()) })
			return
		}
		p.nextBeat = n.mono()
		n.inProcess(0, p.signedOn)
	})
}

// exit ends a process that cannot join. After an ACL denial it is restarted, as by an orchestrator (and in the real engine).
func (p *intentNode) exit(why string) {
	if !p.n.alive || p.n.program != program(p) {
		return
	}
	p.n.die(3, why)
	if strings.Contains(why, redisstore.ErrDenied.Error()) {
		n, gen := p.n, p.n.gen
		n.after(int64(n.cfg.TTL)/10, func() {
			if n.gen == gen {
				n.spawn()
			}
		})
	}
}

func (p *intentNode) signedOn() {
	if p.stopping {
		return
	}
	p.capacity.on, p.up = true, true
	p.n.fleet.routines.begin(p.n, func(*routine) { p.member.Consume(p.ctx) })
	p.n.fleet.routines.begin(p.n, p.beats)
	p.pump()
	p.ready()
}

func (p *intentNode) ready() {
	p.listening = p.handler != nil
	p.n.say(history.Ready, "", 0, "")
}

var intentTokens = []api.Token{
	api.NewToken("writer", client.WriteToken, "v3:write", "v3:read"), api.NewToken("reader", client.ReadToken, "v3:read"),
}

func (p *intentNode) newMember() *membership.Member {
	n := p.n
	single := n.cfg.Intents.SingleWriter
	return &membership.Member{
		Registry: membership.Registry{
			Me: membership.Incarnation{Name: n.name, Boot: "virtual", PIDNS: n.name, PID: int(n.pid)}, Instance: n.instance,
			SingleWriter: single != nil && single(n.slot), Life: n.cfg.TTL, Bus: p.bus, Logger: zap.NewNop(),
			Evict: func(ctx context.Context, owner string, names ...string) ([]string, error) {
				passed, err := p.leasesOf.Pass(ctx, owner, "", n.cfg.TTL, names...)
				if err != nil {
					return passed, fmt.Errorf("%w: %w", inner.ErrUnknown, err)
				}
				return passed, nil
			},
			// One process runs in a slot at a time, so another PID is that of a dead process.
			FateOf: func(other membership.Incarnation) membership.Fate {
				if other.PIDNS == n.name && other.PID != int(n.pid) {
					return membership.Dead
				}
				return membership.Unknown
			},
			Deliver: func(entries []intentbus.Entry) {
				p.put(intentMessage{f: func() { p.jobs.Deliver(p.machine, entries, p.step) }})
			},
			Pause: p.pause, Quit: p.quits,
		},
		Renew: n.cfg.Renew, Tell: p.tell, AwaitCapacity: p.awaitCapacity, Kick: p.kicked.set,
		Query: func(f func(*intent.Machine)) bool {
			if p.quits() {
				return false
			}
			f(p.machine)
			return true
		},
	}
}

func (p *intentNode) quits() bool { return p.n.fleet.routines.current.dead || p.ctx.Err() != nil }

func (p *intentNode) awaitCapacity() bool {
	return p.capacity.wait(p.n.fleet.routines.current, endlessly) && p.ctx.Err() == nil
}

// pause sleeps. It ends early if the worker stops before it has joined.
func (p *intentNode) pause(_ context.Context, d time.Duration) {
	r, d := p.n.fleet.routines.current, max(d, 10*time.Millisecond)
	if p.up {
		r.sleep(d)
	} else {
		p.kicked.wait(r, p.n.clock.TrueOf(0, int64(d)))
	}
}

func (p *intentNode) beatOver() {
	p.beating = false
	p.beaten.set()
}

func (p *intentNode) beats(r *routine) {
	every := core.Time(membership.BeatInterval(p.n.cfg.TTL))
	for !r.dead && p.ctx.Err() == nil {
		p.beating = true
		_ = p.member.Beat(p.ctx) // the next beat retries
		p.beatOver()
		now := p.n.mono()
		for p.nextBeat <= now {
			p.nextBeat += every
		}
		p.kicked.wait(r, p.n.clock.TrueOf(int64(now), int64(p.nextBeat)))
	}
}

func (p *intentNode) goes(f func()) { p.n.fleet.routines.begin(p.n, func(*routine) { f() }) }

func (p *intentNode) tell(e intent.Event) { p.put(intentMessage{event: e}) }

func (p *intentNode) put(m intentMessage) {
	p.inbox = append(p.inbox, m)
	p.pump()
}

// pump handles the inbox. It waits for the current step of the leases, whose answer an attempt could otherwise mistake for its own.
func (p *intentNode) pump() {
	if p.busy || !p.up || !p.n.alive || p.n.program != program(p) {
		return
	}
	if p.n.working {
		if !p.later {
			p.later = true
			p.n.inProcess(0, func() {
				p.later = false
				p.pump()
			})
		}
		return
	}
	p.busy = true
	for often := 1; len(p.inbox) > 0 && p.n.alive && !p.n.repeats(often); often++ {
		m := p.inbox[0]
		p.inbox = p.inbox[1:]
		if m.f != nil {
			m.f()
		}
		if m.event.Kind != 0 {
			p.step(m.event)
		}
	}
	p.busy = false
	if !p.n.alive {
		return
	}
	if p.machine.Idle() {
		p.capacity.set()
	}
	p.n.setTick()
}

func (p *intentNode) step(e intent.Event) {
	e.Now = p.n.mono()
	effects := guarded(p.n, func() []intent.Effect { return slices.Clone(through(p.n.cfg.Seams.Intent, p.machine.Step)(e)) })
	if p.n.fallen() {
		return
	}
	for _, eff := range effects {
		if p.n.alive {
			p.jobs.Carry(eff)
		}
	}
}

func (p *intentNode) next() core.Time {
	if !p.up {
		return 0
	}
	return p.machine.Next()
}

func (p *intentNode) tick() { p.tell(intent.Event{Kind: intent.EvTick}) }

func (p *intentNode) heard(text string) {
	verb, id, _ := strings.Cut(text, " ")
	if !p.up {
		return
	}
	if verb == "stop" {
		if p.machine.Has(id) {
			p.goes(func() { p.member.CheckStop(p.ctx, id) })
		}
		return
	}
	p.kicked.set() // a worker left, or a message may have been missed
}

func (p *intentNode) died() {
	p.cancel()
	for _, c := range p.running() {
		c.state = pipeOver
		c.hangUp()
	}
	for _, n := range slices.Sorted(maps.Keys(p.open)) {
		p.open[n](0, nil)
	}
	clear(p.open)
	if p.bus != nil {
		p.bus.Close()
		p.leasesOf.Close()
	}
	if p.store != nil {
		p.store.Close()
	}
}
