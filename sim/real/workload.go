package real

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/protocol"
)

type document struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Endpoint string `json:"endpoint"`
	IsPaused bool   `json:"isPaused"`
}

func newWorkload(r *run) *workload {
	return &workload{
		run: r, rng: rand.New(rand.NewPCG(r.cfg.Seed, streamSessions)), paused: map[string]int{}, removed: map[string]bool{},
	}
}

// add creates n sessions, with IDs drawn from the seed. A composed fleet has its own sessions, an election has one
// lease, and intents have none.
func (w *workload) add(ctx context.Context, n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run.redis.Kind == kindCompose {
		keys, err := w.run.redis.client.Load().Keys(ctx, protocol.Polling.Sessions+"*").Result()
		slices.Sort(keys)
		for _, key := range keys {
			w.know(strings.TrimPrefix(key, protocol.Polling.Sessions))
		}
		return err
	}
	if only := w.run.system.lease; only != "" {
		w.know(only)
		return nil
	}
	if w.run.system.clients {
		return nil
	}
	var ids []string
	for range n {
		var b [16]byte
		for i := range b {
			b[i] = byte(w.rng.Uint32())
		}
		b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // version 4, RFC 9562
		id := uuid.UUID(b).String()
		ids = append(ids, id)
		w.know(id)
	}
	return w.write(ctx, ids)
}

func (w *workload) know(id string) {
	w.created = append(w.created, id)
	w.run.target.Add(id)
	w.run.record(history.Event{Kind: history.SessionAdded, Session: id})
}

func (w *workload) ids() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.created)
}

// write stores the current state of the sessions with these IDs, if this system has sessions. mu is held.
func (w *workload) write(ctx context.Context, ids []string) error {
	if w.run.system.lease != "" || w.run.system.clients || w.run.redis.Kind == kindCompose {
		return nil
	}
	client := w.run.redis.client.Load()
	const batch = 500
	for start := 0; start < len(ids); start += batch {
		_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, id := range ids[start:min(start+batch, len(ids))] {
				if err := w.put(ctx, p, id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			w.outdated = true
			return fmt.Errorf("sessions cannot be written: %w", err)
		}
	}
	return nil
}

// put queues the command that stores the current state of a session. mu is held.
func (w *workload) put(ctx context.Context, p redis.Pipeliner, id string) error {
	if w.removed[id] {
		p.Del(ctx, w.run.system.sessions+id)
		return nil
	}
	text, err := json.Marshal(document{
		ID: id, Name: "session " + id[:8], Endpoint: w.run.target.URL + "/poll/" + id, IsPaused: w.paused[id] > 0,
	})
	if err == nil {
		p.Set(ctx, w.run.system.sessions+id, text, 0)
	}
	return err
}

func (w *workload) restore(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outdated = false
	return w.write(ctx, w.created)
}

func (w *workload) repair(ctx context.Context) error {
	w.mu.Lock()
	outdated := w.outdated
	w.mu.Unlock()
	if !outdated {
		return nil
	}
	return w.restore(ctx)
}

// change removes, pauses or resumes a session, which stays paused until its last pause ends, and records the change.
func (w *workload) change(ctx context.Context, id string, kind history.Kind) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes := true
	switch kind {
	case history.SessionRemoved:
		w.removed[id] = true
	case history.SessionPaused:
		w.paused[id]++
		changes = w.paused[id] == 1
	case history.SessionResumed:
		w.paused[id]--
		changes = w.paused[id] == 0 && !w.removed[id]
	}
	w.run.target.List(id, w.paused[id] == 0 && !w.removed[id])
	err := w.write(ctx, []string{id})
	if changes {
		w.run.record(history.Event{Kind: kind, Session: id})
	}
	return err
}

// pick returns the session of a fault's target, or one drawn from the existing sessions that are not paused.
func (w *workload) pick(target string) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if target != "" {
		i, ok := fault.SessionIndex(target)
		if !ok || i > len(w.created) || w.removed[w.created[i-1]] {
			return "", false
		}
		return w.created[i-1], true
	}
	var open []string
	for _, id := range w.created {
		if !w.removed[id] && w.paused[id] == 0 {
			open = append(open, id)
		}
	}
	if len(open) == 0 {
		return "", false
	}
	return open[w.rng.IntN(len(open))], true
}

// prepare stores the sessions and declares the first deployment, so that nodes need no quarantine.
func (r *run) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r.work = newWorkload(r)
	if err := r.work.add(ctx, r.cfg.Sessions); err != nil {
		return err
	}
	if r.redis.Kind != kindCompose { // a composed fleet is already bootstrapped
		if err := bootstrap(ctx, r.redis, r.system.Epoch, r.cfg.TTL, r.cfg.Replicas); err != nil {
			return fmt.Errorf("epoch cannot be written: %w", err)
		}
	}
	if image := r.redis.Nodes; image != "" {
		r.record(history.Event{Kind: history.Note, Reason: "nodes run in containers of " + image})
	}
	if r.redis.Note != "" {
		r.notef("%s", r.redis.Note)
	}
	return nil
}

// bootstrap writes the first epoch to an empty Redis, so that no node needs a quarantine. quarantine and replicas are the nodes'
// settings.
func bootstrap(ctx context.Context, r *Redis, epochKey string, quarantine time.Duration, replicas int) error {
	id := "?"
	if info, err := r.client.Load().Info(ctx).Result(); err == nil {
		f := infoFields(info)
		if v := f["run_id"]; v != "" {
			id = v
		}
		if replicas > 0 { // docs/replicas.md
			full, _ := strconv.Atoi(f["sync_full"])
			partial, _ := strconv.Atoi(f["sync_partial_ok"])
			id = fmt.Sprintf("%s:%d:%d", id, full+partial, (replicas+1)/2)
		}
	}
	epoch := id + " 0"
	fresh, err := r.client.Load().SetNX(ctx, epochKey, epoch, 0).Result()
	if err != nil || !fresh {
		return err
	}
	return r.client.Load().HSet(ctx, epochKey+":group", "epoch", epoch, "quarantine", quarantine.Microseconds()).Err()
}
