package virtual

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/intentnames"
	"github.com/leasestorm/leasestorm/internal/membership"
	prod "github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// intentWorker runs pipelines: the production member and machine, and a shell like lease/intent/worker.
type intentWorker struct {
	*intentProcess
	tuners *tuners
	bus    intentbus.Bus
	member *membership.Member
	jobs   intentJobs
	inbox  intentInbox
	leases intentLeases
	beats  intentBeats
	ended  latch // the machine has drained
}

type (
	intentJob  = membership.Job[intentHold, *pipeline]
	intentJobs = membership.Jobs[intentHold, *pipeline]
)

func newIntentWorker(p *intentProcess, u *tuners) *intentWorker {
	w := &intentWorker{intentProcess: p, tuners: u}
	w.inbox = intentInbox{intentProcess: p, carry: w.jobs.Carry}
	w.leases = intentLeases{intentProcess: p, inbox: &w.inbox, keep: w.jobs.Keep}
	w.beats.intentProcess = p
	return w
}

// open connects the worker to Redis.
func (w *intentWorker) open(s *store.Store) {
	n := w.n
	client := w.dial(n.cfg.OpTimeout)
	defer client.Close() // the stores have their own connections
	w.inbox.machine = intent.New(membership.Settings(&intentnames.ADR003, n.instance, w.tuners.slots, n.cfg.TTL, storePatience))
	w.bus = must(intentbus.Open(s, n.instance))
	w.leases.open(client)
	w.member = w.newMember()
	w.beats.member, w.leases.member = w.member, w.member
	w.jobs = w.newJobs()
}

// run starts the work of a worker that has joined.
func (w *intentWorker) run() {
	w.inbox.capacity.on, w.inbox.open = true, true
	w.begin(func(*routine) { w.member.Consume(w.ctx) })
	w.begin(w.beats.run)
	w.inbox.pump()
}

func (w *intentWorker) newMember() *membership.Member {
	n := w.n
	single := n.cfg.Intents.SingleWriter
	return &membership.Member{
		Registry: membership.Registry{
			Me: membership.Incarnation{Name: n.name, Boot: "virtual", PIDNS: n.name, PID: int(n.pid)}, Instance: n.instance,
			SingleWriter: single != nil && single(n.slot), Life: n.cfg.TTL, Bus: w.bus, Logger: zap.NewNop(),
			Evict: func(ctx context.Context, owner string, names ...string) ([]string, error) {
				passed, err := w.leases.store.Pass(ctx, owner, "", n.cfg.TTL, names...)
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
			Deliver: w.deliver, Pause: w.pause, Quit: w.quits,
		},
		Renew: n.cfg.Renew, Tell: w.inbox.tell, AwaitCapacity: w.inbox.awaitCapacity, Kick: w.beats.soon.set,
		Query: func(f func(*intent.Machine)) bool {
			if w.quits() {
				return false
			}
			f(w.inbox.machine)
			return true
		},
	}
}

func (w *intentWorker) deliver(entries []intentbus.Entry) {
	w.inbox.put(intentMessage{f: func() { w.jobs.Deliver(w.inbox.machine, entries, w.inbox.step) }})
}

func (w *intentWorker) quits() bool { return w.current().dead || w.ctx.Err() != nil }

// pause sleeps. It ends early if the worker stops before it has joined.
func (w *intentWorker) pause(_ context.Context, d time.Duration) {
	r, d := w.current(), max(d, 10*time.Millisecond)
	if w.inbox.open {
		r.sleep(d)
	} else {
		w.beats.soon.wait(r, w.n.clock.TrueOf(0, int64(d)))
	}
}

// newJobs returns the jobs, which carry out the machine's effects.
func (w *intentWorker) newJobs() intentJobs {
	each := func(kind core.EventKind) func(*intent.Effect, *intentJob, []intentHold) {
		return func(_ *intent.Effect, _ *intentJob, holds []intentHold) {
			for _, h := range holds {
				w.n.step(core.Event{Kind: kind, ID: h.id, Fence: h.fence})
			}
		}
	}
	return intentJobs{
		Member: w.member, Names: prod.ADR003(), All: map[string]*intentJob{},
		Acquire: w.leases.acquire, Release: w.leases.release, Launch: w.launch,
		Go: func(f func(context.Context)) { w.begin(func(*routine) { f(w.ctx) }) },
		Wrote: func(_ *intent.Effect, ev intent.Event, _ error) { // ev reports the error
			if !w.current().dead {
				w.inbox.tell(ev)
			}
		},
		Halt: func(_ *intent.Effect, j *intentJob) {
			if c := j.Work; c != nil { // otherwise EvReturned is pending
				c.stop = true
				c.letGo()
			}
		},
		Abandon: each(core.EvAbandon),
		Forget:  each(core.EvRecovered),
		Drained: func(*intent.Effect) { w.ended.fire() },
	}
}

func (w *intentWorker) launch(e *intent.Effect, j *intentJob, resource, place intentHold) {
	n, service, slot := w.n, resource.id, place.id
	c := &pipeline{
		n: n, u: w.tuners, instance: n.instance, session: e.Session, service: service, slot: slot, fence: e.Fence, slotFrom: e.SlotFence,
	}
	c.tell = func(e intent.Event) { w.heardOf(c, e) }
	j.Work = c
	send := func() {
		c.sent = int64(n.mono())
		n.after(n.hop(), func() { w.tuners.serve(c) })
	}
	// After a freeze, no lease can prevent the send, so a fence must.
	if c.paused = n.freezes(slot, e.SlotFence, n.fleet.app.index[slot]); c.paused {
		n.inProcess(0, send)
	} else {
		send()
	}
}

// heardOf tells the machine what became of a pipeline.
func (w *intentWorker) heardOf(c *pipeline, e intent.Event) {
	if j := w.jobs.All[c.session]; c.state == pipeOver && j != nil && j.Work == c {
		j.Work = nil
	}
	e.Session = c.session
	w.inbox.tell(e)
}

func (w *intentWorker) running() (all []*pipeline) {
	for _, id := range slices.Sorted(maps.Keys(w.jobs.All)) {
		if c := w.jobs.All[id].Work; c != nil {
			all = append(all, c)
		}
	}
	return all
}

func (w *intentWorker) told(t *core.Tell) {
	switch t.Kind {
	case core.TellLost, core.TellReleased, core.TellYield:
		for _, c := range w.running() {
			c.untrusted(t)
		}
	}
	w.leases.told(t)
}

func (w *intentWorker) heard(text string) {
	verb, id, _ := strings.Cut(text, " ")
	switch {
	case !w.inbox.open:
	case verb != "stop":
		w.beats.soon.set() // a worker left, or a message may have been missed
	case w.inbox.machine.Has(id):
		w.begin(func(*routine) { w.member.CheckStop(w.ctx, id) })
	}
}

// stop stops the worker. A worker that has not joined has no pipelines.
func (w *intentWorker) stop(r *routine) {
	if !w.inbox.open {
		w.ended.on = true
		w.finish(r)
		return
	}
	w.begin(w.finish)
	w.inbox.tell(intent.Event{Kind: intent.EvDrain})
}

// finish mirrors Worker.Stop of lease/intent/worker.
func (w *intentWorker) finish(r *routine) {
	if !w.ended.wait(r, endlessly) {
		return
	}
	w.cancel()
	if !w.beats.stop(r) || !w.leases.stop(r) {
		return
	}
	_ = w.member.SignOff(context.Background()) // if it fails, the entry expires
	if r.sleep(0) {
		w.n.stopped()
	}
}

// hangUp ends the pipelines, because the process has died.
func (w *intentWorker) hangUp() {
	for _, c := range w.running() {
		c.state = pipeOver
		c.hangUp()
	}
}

func (w *intentWorker) close() {
	if w.bus != nil {
		w.bus.Close()
		w.leases.store.Close()
	}
}
