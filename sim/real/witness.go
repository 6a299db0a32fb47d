package real

import (
	"context"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// tapPatience is longer than a server waits for further replicas (repl-diskless-sync-delay, 5 s by default).
const tapPatience = 20 * time.Second

func (r *run) tapIn(ctx context.Context) {
	if r.redis.kind == kindEmbedded {
		r.record(history.Event{Kind: history.TapDown, Reason: "the embedded Redis has no replication stream"})
		return
	}
	t := newTap(r.redis, r.system, r.clock, func(e history.Event) {
		r.owners.see(&e)
		r.rec.Add(e)
	})
	ctx, cancel := context.WithTimeout(ctx, tapPatience)
	defer cancel()
	if err := t.wait(ctx); err != nil {
		t.close()
		r.record(history.Event{Kind: history.TapDown, Reason: brief(err)})
		r.notef("what Redis grants is not seen: %v", err)
		return
	}
	r.tap, r.taps = t, []*tap{t}
}

func (r *run) closeTaps() {
	for _, t := range r.taps {
		t.close()
	}
}

// restoreWithin is how long restoring the application's keys on a new master may take. Failed writes are repeated at the end of the storm.
const restoreWithin = time.Second

// tapServers opens a tap at each server. Only masters grant, so a tap follows a replica only after its promotion.
func (r *run) tapServers(ctx context.Context) {
	p := r.redis.replicated
	if p.cluster != nil {
		if err := p.drawTimeout(ctx, r.cfg.Seed, r.cfg.TTL); err != nil {
			r.notef("the node time-out stays what it was: %v", err)
		}
	}
	for _, m := range p.members {
		if p.cluster != nil && m == p.voter() {
			continue // it never holds a lease
		}
		at := witnessed{
			admin:  harnessOptions(m.addr),
			client: m.client.Load,
			master: func(ctx context.Context) bool { role, _ := m.role(ctx); return role == "master" && m.serves(ctx) },
			mark:   p.mark(m),
			attached: func() {
				if r.storm.Load() > 0 {
					r.notef("the witness attached itself to %s: it counts as a replica that does, and began an epoch there, with a quarantine", m.name)
				}
			},
		}
		r.taps = append(r.taps, newTapAt(r.redis, at, r.system, r.clock, func(e history.Event) {
			if e.Node = m.name; m == p.present() {
				r.owners.see(&e)
			}
			r.rec.Add(e)
		}))
	}
	ctx, cancel := context.WithTimeout(ctx, tapPatience)
	defer cancel()
	first := r.taps[p.present().number-1]
	if err := first.wait(ctx); err != nil {
		r.notef("what Redis grants is not seen: %v", err)
		return
	}
	r.tap = first
}

// switched handles a new master: the application repeats its writes, which the new master may lack.
func (r *run) switched(ctx context.Context, m *member) {
	r.record(history.Event{Kind: history.Note, Reason: r.redis.replicated.deciders() + " name " + m.name + " the master"})
	ctx, cancel := context.WithTimeout(ctx, restoreWithin)
	defer cancel()
	if err := r.work.restore(ctx); err != nil && ctx.Err() == nil {
		r.notef("%v", err)
	}
}
