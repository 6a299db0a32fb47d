package election

import (
	"context"
	"slices"
	"sync"
	"time"

	rules "github.com/leasestorm/leasestorm/internal/core/election"
	"github.com/leasestorm/leasestorm/internal/ready"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// requests sends the machines' requests that do not concern the lease: heartbeats, reads and sweeps. It batches the requests of
// several elections that are due at about the same time, and sets a shared heartbeat once.
type requests struct {
	cfg    Config
	store  *redisstore.Store
	wrote  func(sent time.Time)          // called after Redis has executed a write
	looked func(looks []look, err error) // called after a read
	ctx    context.Context
	close  func() error // ends the requests in flight
	ended  chan struct{}
	wake   chan struct{}

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

// newRequests makes the requests of elections. line returns the ACL line that grants what they need.
func newRequests(cfg Config, st *redisstore.Store, line func() string) *requests {
	r := &requests{cfg: cfg, store: st, wake: make(chan struct{}, 1), ended: make(chan struct{}), beats: map[string]bool{}}
	r.beating.Life = 2*cfg.HeartbeatInterval + cfg.OpTimeout // a follower does not beat
	r.looking.Life = 2*cfg.ElectionInterval + cfg.OpTimeout  // a leader does not read
	r.beating.Line, r.looking.Line = line, line
	ctx, end := context.WithCancel(context.Background())
	r.ctx, r.close = ctx, sync.OnceValue(func() error { end(); return st.Close() })
	return r
}

// take queues the requests of a step. It never waits.
func (r *requests) take(e *Election, eff *rules.Effects) {
	if !eff.Beat && !eff.Unbeat && !eff.Look && !eff.Sweep {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case eff.Beat:
		r.beats[e.beatKey] = true
	case eff.Unbeat:
		r.beats[e.beatKey] = false
	}
	if eff.Look {
		r.looks = append(r.looks, look{e: e, glance: redisstore.Glance{Lease: e.key, Of: eff.LookOf, Prefix: e.prefix}})
	}
	if eff.Sweep {
		r.sweeps = append(r.sweeps, e)
	}
	poke(r.wake)
}

// poke wakes the goroutine that receives from the channel.
func poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// finish sends the remaining requests, for OpTimeout at most, and ends the work.
func (r *requests) finish() {
	timer := time.AfterFunc(r.cfg.OpTimeout, func() { _ = r.close() })
	defer timer.Stop()
	r.mu.Lock()
	r.finished = true
	r.sweeps = nil
	poke(r.wake)
	r.mu.Unlock()
	<-r.ended
}

func (r *requests) work() {
	defer close(r.ended)
	var s sweep
	for {
		r.mu.Lock()
		beats, looks, sweeps, finished := r.beats, r.looks, r.sweeps, r.finished
		r.beats, r.looks, r.sweeps = map[string]bool{}, nil, nil
		r.mu.Unlock()
		r.beat(beats)
		if finished {
			return
		}
		r.look(looks)
		s.add(sweeps)
		if r.page(&s) {
			continue // another page, after new requests
		}
		select {
		case <-r.wake:
		case <-r.ctx.Done():
			return
		}
	}
}

// beat sets and deletes heartbeats. It does not retry, because the next heartbeat is due soon, and an old one expires.
func (r *requests) beat(beats map[string]bool) {
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
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.OpTimeout)
	defer cancel()
	cfg := r.cfg.rules()
	sent := time.Now()
	err := r.store.Heartbeats(ctx, set, sent, time.Duration(cfg.HeartbeatTTL()), del)
	r.beating.Note(err)
	if err == nil && len(set) > 0 {
		r.wrote(sent)
	}
}

// look reads for followers.
func (r *requests) look(looks []look) {
	if len(looks) == 0 {
		return
	}
	glances := make([]redisstore.Glance, len(looks))
	for i := range looks {
		glances[i] = looks[i].glance
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.OpTimeout)
	defer cancel()
	err := r.store.Glances(ctx, glances)
	r.looking.Note(err)
	for i := range looks {
		looks[i].glance = glances[i]
	}
	r.looked(looks, err)
}

// sweep deletes the heartbeats of dead leaders, a page at a time, for all elections that requested a sweep.
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

// page sweeps one page and reports whether more pages follow. It gives up a failed sweep, because the next leader sweeps again.
func (r *requests) page(s *sweep) bool {
	if len(s.queue) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.OpTimeout)
	defer cancel()
	e, cfg := s.queue[0], r.cfg.rules()
	more, swept, _ := r.store.SweepHeartbeats(ctx, e.prefix, &s.walk, time.Duration(cfg.HeartbeatTTL()))
	e.stats.swept.Add(int64(swept))
	if !more {
		s.queue, s.walk = s.queue[1:], redisstore.Sweep{}
	}
	return len(s.queue) > 0
}
