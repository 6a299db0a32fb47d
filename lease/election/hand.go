package election

import (
	"context"
	"slices"
	"sync"
	"time"

	rules "github.com/leasestorm/leasestorm/internal/core/election"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/ready"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// hand sends the machines' requests besides the lease: heartbeats, reads and sweeps. It batches those of several elections at about the
// same time, and sets a shared heartbeat once.
type hand struct {
	g     *Group
	store *redisstore.Store
	ctx   context.Context
	close func() error // ends the requests in flight
	ended chan struct{}
	wake  chan struct{}

	beating, looking ready.Watch

	mu       sync.Mutex
	beats    map[string]bool // key → set; false: delete
	looks    []look
	sweeps   []*Election
	finished bool
}

type look struct {
	e      *Election
	glance redisstore.Glance
}

func newHand(g *Group, st *redisstore.Store) *hand {
	h := &hand{g: g, store: st, wake: make(chan struct{}, 1), ended: make(chan struct{}), beats: map[string]bool{}}
	h.beating.Life = 2*g.cfg.HeartbeatInterval + g.cfg.OpTimeout // a follower does not beat
	h.looking.Life = 2*g.cfg.ElectionInterval + g.cfg.OpTimeout  // a leader does not read
	h.beating.Line, h.looking.Line = h.line, h.line
	ctx, end := context.WithCancel(context.Background())
	h.ctx, h.close = ctx, sync.OnceValue(func() error { end(); return st.Close() })
	return h
}

// line returns the ACL line that grants what the elections need.
func (h *hand) line() string {
	h.g.mu.Lock()
	var keys []string
	for _, e := range h.g.order {
		keys = append(keys, e.key)
	}
	h.g.mu.Unlock()
	return h.store.Line(redisstore.Use{Registry: true, Leases: keys})
}

// take queues the requests of a step. The caller holds g.mu. It never waits.
func (h *hand) take(e *Election, eff *rules.Effects) {
	if !eff.Beat && !eff.Unbeat && !eff.Look && !eff.Sweep {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case eff.Beat:
		h.beats[e.beatKey] = true
	case eff.Unbeat && !h.g.leadsWith(e.beatKey):
		h.beats[e.beatKey] = false
	}
	if eff.Look {
		h.looks = append(h.looks, look{e: e, glance: redisstore.Glance{Lease: e.key, Of: eff.LookOf, Prefix: e.prefix}})
	}
	if eff.Sweep {
		h.sweeps = append(h.sweeps, e)
	}
	h.poke()
}

// leadsWith reports whether an election that this process leads uses the heartbeat key. The caller holds g.mu.
func (g *Group) leadsWith(key string) bool {
	return slices.ContainsFunc(g.order, func(e *Election) bool { return e.beatKey == key && e.m.State() == rules.Leader })
}

func (h *hand) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// finish sends the remaining requests, for OpTimeout at most, and ends the work.
func (h *hand) finish() {
	timer := time.AfterFunc(h.g.cfg.OpTimeout, func() { _ = h.close() })
	defer timer.Stop()
	h.mu.Lock()
	h.finished = true
	h.sweeps = nil
	h.poke()
	h.mu.Unlock()
	<-h.ended
}

func (h *hand) work() {
	defer close(h.ended)
	var s sweep
	for {
		h.mu.Lock()
		beats, looks, sweeps, finished := h.beats, h.looks, h.sweeps, h.finished
		h.beats, h.looks, h.sweeps = map[string]bool{}, nil, nil
		h.mu.Unlock()
		h.beat(beats)
		if finished {
			return
		}
		h.look(looks)
		s.add(sweeps)
		if h.page(&s) {
			continue // another page, after new requests
		}
		select {
		case <-h.wake:
		case <-h.ctx.Done():
			return
		}
	}
}

// beat sets and deletes heartbeats. It does not retry: the next is due soon, and an old heartbeat expires.
func (h *hand) beat(beats map[string]bool) {
	if len(beats) == 0 {
		return
	}
	var set, del []string
	for key, on := range beats {
		if on {
			set = append(set, key)
		} else {
			del = append(del, key)
		}
	}
	ctx, cancel := context.WithTimeout(h.ctx, h.g.cfg.OpTimeout)
	defer cancel()
	cfg := h.g.cfg.rules()
	sent := time.Now()
	err := h.store.Heartbeats(ctx, set, sent, time.Duration(cfg.HeartbeatTTL()), del)
	h.beating.Note(err)
	if err == nil && len(set) > 0 {
		inner.OfKeeper(h.g.keeper).Wrote(sent)
	}
}

// look reads for followers and passes the results to their machines.
func (h *hand) look(looks []look) {
	if len(looks) == 0 {
		return
	}
	glances := make([]redisstore.Glance, len(looks))
	for i := range looks {
		glances[i] = looks[i].glance
	}
	ctx, cancel := context.WithTimeout(h.ctx, h.g.cfg.OpTimeout)
	defer cancel()
	err := h.store.Glances(ctx, glances)
	h.looking.Note(err)
	h.g.mu.Lock()
	defer h.g.mu.Unlock()
	now := h.g.now()
	for i := range looks {
		e, gl := looks[i].e, &glances[i]
		e.stats.cycles.Add(1)
		h.g.step(e, rules.Input{Kind: rules.Looked, Now: now, Look: rules.Look{Failed: err != nil, Leader: gl.Owner,
			Fence: gl.Fence, Of: gl.Of, Beats: gl.Beats, Heartbeat: gl.Heartbeat}})
	}
}

// sweep deletes the heartbeats of dead leaders, a page at a time, for all elections that requested one.
type sweep struct {
	queue []*Election
	walk  redisstore.Sweep // of queue[0]
}

func (s *sweep) add(more []*Election) {
	for _, e := range more { // one prefix is walked once, even for a thousand elections
		if !slices.ContainsFunc(s.queue, func(x *Election) bool { return x.prefix == e.prefix }) {
			s.queue = append(s.queue, e)
		}
	}
}

// page sweeps one page and reports whether there are more. It gives up a failed sweep: the next leader sweeps again.
func (h *hand) page(s *sweep) bool {
	if len(s.queue) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(h.ctx, h.g.cfg.OpTimeout)
	defer cancel()
	e, cfg := s.queue[0], h.g.cfg.rules()
	more, swept, _ := h.store.SweepHeartbeats(ctx, e.prefix, &s.walk, time.Duration(cfg.HeartbeatTTL()))
	e.stats.swept.Add(int64(swept))
	if !more {
		s.queue, s.walk = s.queue[1:], redisstore.Sweep{}
	}
	return len(s.queue) > 0
}
