package real

import (
	"context"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/stream"
)

func (r *run) openStream(ctx context.Context) {
	if r.redis.Kind == kindEmbedded {
		r.record(history.Event{Kind: history.TapDown, Reason: "the embedded Redis has no replication stream"})
		return
	}
	t := stream.Open(r.redis.streamed(), &r.system.Keys, r.clock, func(e history.Event) {
		r.owners.see(&e)
		r.rec.Add(e)
	})
	ctx, cancel := context.WithTimeout(ctx, stream.Patience)
	defer cancel()
	if err := t.Wait(ctx); err != nil {
		t.Close()
		r.record(history.Event{Kind: history.TapDown, Reason: stream.Brief(err)})
		r.notef("what Redis grants is not seen: %v", err)
		return
	}
	r.stream, r.streams = t, []*stream.Stream{t}
}

func (r *run) closeStreams() {
	for _, t := range r.streams {
		t.Close()
	}
}

// restoreWithin is how long restoring the application's keys on a new master may take. Failed writes are repeated at the end of the storm.
const restoreWithin = time.Second

// openStreams opens a stream at each server. Only masters grant leases, so the stream of a replica reports events only after the
// replica's promotion.
func (r *run) openStreams(ctx context.Context) {
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
		at := stream.Server{
			Admin:  harnessOptions(m.addr),
			Client: m.client.Load,
			Master: func(ctx context.Context) bool { role, _ := m.role(ctx); return role == "master" && m.serves(ctx) },
			Mark:   p.mark(m),
			Attached: func() {
				if r.storm.Load() > 0 {
					r.notef("the witness attached itself to %s: it counts as a replica that does, and began an epoch there, with a quarantine", m.name)
				}
			},
		}
		r.streams = append(r.streams, stream.Open(at, &r.system.Keys, r.clock, func(e history.Event) {
			if e.Node = m.name; m == p.present() {
				r.owners.see(&e)
			}
			r.rec.Add(e)
		}))
	}
	ctx, cancel := context.WithTimeout(ctx, stream.Patience)
	defer cancel()
	first := r.streams[p.present().number-1]
	if err := first.Wait(ctx); err != nil {
		r.notef("what Redis grants is not seen: %v", err)
		return
	}
	r.stream = first
}

// switched handles a new master. The application repeats its writes, because the new master may lack them.
func (r *run) switched(ctx context.Context, m *member) {
	r.record(history.Event{Kind: history.Note, Reason: r.redis.replicated.deciders() + " name " + m.name + " the master"})
	ctx, cancel := context.WithTimeout(ctx, restoreWithin)
	defer cancel()
	if err := r.work.restore(ctx); err != nil && ctx.Err() == nil {
		r.notef("%v", err)
	}
}
