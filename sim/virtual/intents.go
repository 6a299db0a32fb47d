package virtual

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/sim/client"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

const (
	roleAPI    = "api"
	roleWorker = "worker"
)

const (
	intentPrefix = "v3:"
	idemPrefix   = intentPrefix + "idem:"
	recordPrefix = intentPrefix + "session:"
	busKey       = intentPrefix + "bus"
)

// intentOptions are the store's options for the leases of the intent system.
func intentOptions(c *Config) redisstore.Options {
	return redisstore.Options{
		LeasePrefix: "lease:", NodePrefix: intentPrefix + "node:", EpochKey: intentPrefix + "epoch", Channel: intentPrefix + "leases",
		Quarantine: c.TTL, Replicas: c.Replicas,
	}
}

const storePatience = 3 * time.Second

const streamIntents = 0x696e74656e7473

func (w *world) startIntents(seed uint64) {
	iw := &intentWorld{ids: rand.New(rand.NewPCG(seed, streamIntents)), tuners: tuners{places: map[string]*tunerPlace{}}}
	w.intents = iw
	iw.clients = client.Config{Seed: seed, TTL: w.cfg.TTL, Poll: w.cfg.Poll, Number: func() int64 {
		iw.number++
		return iw.number
	}}
	for i := range w.cfg.Intents.Tuners {
		iw.slots = append(iw.slots, strconv.Itoa(i+1))
		w.server.Lease("tuner:" + iw.slots[i])
	}
	for i := range w.cfg.Sessions {
		w.server.Lease("service:" + client.Service(i))
		w.after(0, func() {
			w.goes(nil, func(r *routine) { client.Live(clientWorld{r}, &iw.clients, i) })
		})
	}
}

func (w *world) endRoutines() {
	endAll(&w.routines)
	for _, n := range w.nodes {
		endAll(&n.routines)
		if n.program != nil {
			n.program.died(w, n)
		}
	}
	for _, c := range w.idle {
		c.stop()
	}
	w.idle = nil
}

// uuid draws a UUID like version 7, with the wall time wall in ns.
func (iw *intentWorld) uuid(wall int64) (id [16]byte) {
	binary.BigEndian.PutUint64(id[:8], uint64(wall/int64(time.Millisecond))<<16|iw.ids.Uint64()&0xffff)
	binary.BigEndian.PutUint64(id[8:], iw.ids.Uint64())
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id
}

// clientWorld is the world of one client. Its requests fail once the routine has ended.
type clientWorld struct{ r *routine }

func (c clientWorld) Wait(d time.Duration) bool { return c.r.sleep(d) }
func (c clientWorld) Since() time.Duration      { return time.Duration(c.r.w.t) }

func (c clientWorld) Go(f func(client.World)) {
	w := c.r.w
	w.after(0, func() { w.goes(nil, func(r *routine) { f(clientWorld{r}) }) })
}

func (c clientWorld) Record(e history.Event) {
	if !c.r.dead {
		c.r.w.emit(e)
	}
}

func (c clientWorld) APIs() []string {
	var names []string
	for _, n := range c.r.w.nodes {
		if c.r.w.cfg.Intents.Role(n.slot) != roleWorker && n.spawned {
			names = append(names, n.name)
		}
	}
	return names
}

// Send uses a network without faults, because an instance that is cut off from Redis still serves requests.
func (c clientWorld) Send(api string, req *client.Request) (status int, body []byte) {
	w := c.r.w
	i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.name == api })
	over := false
	done := func(code int, text []byte) {
		if !over {
			over = true
			status, body = code, text
			c.r.wake()
		}
	}
	w.after(int64(w.intents.clients.Patience()), func() { done(0, nil) })
	w.after(w.hop(), func() { w.arrives(w.nodes[i], req, done) })
	if !c.r.park() {
		return 0, nil
	}
	return status, body
}

func (w *world) arrives(n *node, req *client.Request, done func(int, []byte)) {
	p, _ := n.program.(*intentNode)
	if !n.alive || p == nil || !p.listening {
		w.after(w.hop(), func() { done(0, nil) })
		return
	}
	p.serve(req, func(code int, text []byte) { w.after(w.hop(), func() { done(code, text) }) })
}

// showRecord records a change of a key that leases do not use. Only the intent system has such keys.
func (w *world) showRecord(s *server, c redis.Change, snapshot bool) {
	record, isRecord := strings.CutPrefix(c.Name, recordPrefix)
	idem, isIdem := strings.CutPrefix(c.Name, idemPrefix)
	switch {
	case c.Kind == redis.Stored && isIdem:
		e := history.Event{Kind: history.RedisKeyed, Session: c.Text, Reason: idem, N: number(snapshot)}
		if c.Expire != redis.Forever {
			e.Until = s.TrueOf(w.t, c.Expire)
		}
		w.emitOf(s, e)
	case c.Kind == redis.Hashed && isRecord:
		w.showState(s, record, c.Words, snapshot)
	case c.Kind == redis.Added && c.Name == busKey:
		e := history.Event{Kind: history.RedisIntent}
		for i := 0; i+1 < len(c.Words); i += 2 {
			switch c.Words[i] {
			case "session":
				e.Session = c.Words[i+1]
			case "type":
				e.Reason = c.Words[i+1]
			}
		}
		w.emitOf(s, e)
	case c.Kind == redis.Removed && isIdem:
		w.emitOf(s, history.Event{Kind: history.RedisUnkeyed, Reason: idem})
	case c.Kind == redis.Removed && isRecord:
		w.emitOf(s, history.Event{Kind: history.RedisState, Session: record, Reason: "gone"})
	}
}

func (w *world) showState(s *server, id string, pairs []string, snapshot bool) {
	e := history.Event{Kind: history.RedisState, Session: id, N: number(snapshot)}
	var state, reason string
	for i := 0; i+1 < len(pairs); i += 2 {
		switch pairs[i] {
		case "stop":
			if s.peer != nil { // with one server, the answers record it
				w.emitOf(s, history.Event{Kind: history.RedisIntent, Session: id, Reason: "stop", N: e.N})
			}
		case "state":
			state = pairs[i+1]
		case "reason":
			reason = pairs[i+1]
		case "fence":
			e.Fence, _ = strconv.ParseInt(pairs[i+1], 10, 64)
		}
	}
	if state == "" {
		return
	}
	if snapshot {
		e.Fence = 0 // a snapshot does not show the fence
	}
	e.Reason = strings.TrimSpace(state + " " + reason)
	w.emitOf(s, e)
}
