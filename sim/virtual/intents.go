package virtual

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/leasestorm/leasestorm/sim/client"
	"github.com/leasestorm/leasestorm/sim/history"
)

const streamIntents = 0x696e74656e7473

// intentWorld is what surrounds the instances of the intent system: its clients and its tuners.
type intentWorld struct {
	*timeline
	fleet   *fleet
	clients client.Config
	number  int64 // of the last request
	tuners  tuners
	ids     *rand.Rand // for IDs of sessions and processes
}

func startIntents(f *fleet, seed uint64) *intentWorld {
	iw := &intentWorld{timeline: f.timeline, fleet: f, ids: rand.New(rand.NewPCG(seed, streamIntents))}
	iw.tuners = tuners{timeline: f.timeline, places: map[string]*tunerPlace{}}
	iw.clients = client.Config{Seed: seed, TTL: f.cfg.TTL, Poll: f.cfg.Poll, Number: func() int64 {
		iw.number++
		return iw.number
	}}
	for i := range f.cfg.Intents.Tuners {
		iw.tuners.slots = append(iw.tuners.slots, strconv.Itoa(i+1))
		f.servers.master.Lease("tuner:" + iw.tuners.slots[i])
	}
	for i := range f.cfg.Sessions {
		f.servers.master.Lease("service:" + client.Service(i))
		iw.begin(func(c client.World) { client.Live(c, &iw.clients, i) })
	}
	return iw
}

// begin begins the life of a client.
func (iw *intentWorld) begin(f func(client.World)) {
	iw.after(0, func() { iw.fleet.routines.begin(nil, func(r *routine) { f(clientWorld{iw, r}) }) })
}

func (iw *intentWorld) newNode(n *node) *intentNode {
	return newIntentNode(n, &iw.tuners, func() uuid.UUID { return iw.uuid(n.clock.WallAt(n.t)) })
}

// uuid draws a UUID like version 7, with the wall time wall in ns.
func (iw *intentWorld) uuid(wall int64) (id [16]byte) {
	binary.BigEndian.PutUint64(id[:8], uint64(wall/int64(time.Millisecond))<<16|iw.ids.Uint64()&0xffff)
	binary.BigEndian.PutUint64(id[8:], iw.ids.Uint64())
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id
}

// clientWorld is the world of one client. Its requests fail once the routine has ended.
type clientWorld struct {
	*intentWorld
	r *routine
}

func (c clientWorld) Wait(d time.Duration) bool { return c.r.sleep(d) }
func (c clientWorld) Since() time.Duration      { return time.Duration(c.t) }

func (c clientWorld) Go(f func(client.World)) { c.begin(f) }

func (c clientWorld) Record(e history.Event) {
	if !c.r.dead {
		c.emit(e)
	}
}

func (c clientWorld) APIs() []string {
	var names []string
	for _, n := range c.fleet.nodes {
		if c.cfg.Intents.Role(n.slot) != roleWorker && n.spawned {
			names = append(names, n.name)
		}
	}
	return names
}

// Send uses a network without faults, because an instance that is cut off from Redis still serves requests.
func (c clientWorld) Send(api string, req *client.Request) (status int, body []byte) {
	i := slices.IndexFunc(c.fleet.nodes, func(n *node) bool { return n.name == api })
	over := false
	done := func(code int, text []byte) {
		if !over {
			over = true
			status, body = code, text
			c.r.wake()
		}
	}
	c.after(int64(c.clients.Patience()), func() { done(0, nil) })
	c.after(c.hop(), func() { c.fleet.nodes[i].arrives(req, done) })
	if !c.r.park() {
		return 0, nil
	}
	return status, body
}

func (n *node) arrives(req *client.Request, done func(int, []byte)) {
	p, _ := n.program.(*intentNode)
	if !n.alive || p == nil || !p.api.listens {
		n.after(n.hop(), func() { done(0, nil) })
		return
	}
	p.api.serve(req, func(code int, text []byte) { n.after(n.hop(), func() { done(code, text) }) })
}
