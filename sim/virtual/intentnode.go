package virtual

import (
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease"
	prod "github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
	"github.com/leasestorm/leasestorm/sim/history"
)

// intentNode is a process of the intent system: an API, a worker, or both, with the production store.
type intentNode struct {
	*intentProcess
	store  *store.Store
	api    intentAPI
	worker *intentWorker // nil: the process is an API only
}

func newIntentNode(n *node, u *tuners, newID func() uuid.UUID) *intentNode {
	ctx, cancel := context.WithCancel(context.Background())
	p := &intentProcess{n: n, gen: n.gen, ctx: ctx, cancel: cancel}
	i := &intentNode{intentProcess: p, api: intentAPI{intentProcess: p, newID: newID, pending: map[int64]func(int, []byte){}}}
	if n.cfg.Intents.Role(n.slot) != roleAPI {
		i.worker = newIntentWorker(p, u)
	}
	return i
}

func (p *intentNode) leases() bool { return p.worker != nil }

func (p *intentNode) start() {
	n, c := p.n, &p.n.cfg
	client := p.dial(storePatience)
	defer client.Close() // stores have their own connections
	p.store = must(store.New(client, store.Options{
		Names: prod.ADR003(), OpTimeout: never, PoolSize: poolSize,
		Leases: lease.Config{TTL: c.TTL, RenewInterval: c.Renew, OpTimeout: c.OpTimeout, Replicas: c.Replicas},
	}))
	if c.Intents.Role(n.slot) != roleWorker {
		p.api.open(p.store)
	}
	if p.worker == nil {
		p.ready()
		return
	}
	p.worker.open(p.store)
	p.begin(func(*routine) {
		switch err := p.worker.beats.join(); {
		case errors.Is(err, context.Canceled): // it is stopping
		case err != nil:
			n.after(0, func() { p.exit(err.Error()) })
		default:
			n.inProcess(0, p.joined)
		}
	})
}

// exit ends a process that cannot join. After an ACL denial, a new process starts, as with an orchestrator and in the real
// engine.
func (p *intentNode) exit(why string) {
	n := p.n
	if !p.runs() {
		return
	}
	n.die(3, why)
	if strings.Contains(why, redisstore.ErrDenied.Error()) {
		gen := n.gen
		n.after(int64(n.cfg.TTL)/10, func() {
			if n.gen == gen {
				n.spawn()
			}
		})
	}
}

func (p *intentNode) joined() {
	if !p.n.draining {
		p.worker.run()
		p.ready()
	}
}

func (p *intentNode) ready() {
	p.api.listens = p.api.handler != nil
	p.n.say(history.Ready, "", 0, "")
}

func (p *intentNode) next() core.Time {
	if p.worker == nil {
		return 0
	}
	return p.worker.inbox.next()
}

func (p *intentNode) tick() { p.worker.inbox.tick() }

func (p *intentNode) heard(text string) {
	if p.worker != nil {
		p.worker.heard(text)
	}
}

func (p *intentNode) told(t *core.Tell) { p.worker.told(t) }

func (p *intentNode) asks(op *core.Op) { p.worker.leases.passed.Asked(op) }

func (p *intentNode) answered(op *core.Op, a *core.Answer) { p.worker.leases.answered(op, a) }

func (p *intentNode) drain() bool {
	p.api.listens = false
	p.begin(p.stop)
	return true
}

// stop ends the API, the pipelines, the leases and the worker's registry entry, in this order.
func (p *intentNode) stop(r *routine) {
	switch {
	case !p.api.stop(r):
	case p.worker == nil:
		p.n.stopped()
	default:
		p.worker.stop(r)
	}
}

func (p *intentNode) drained() bool {
	p.worker.leases.released.fire()
	return true
}

func (p *intentNode) died() {
	p.cancel()
	if p.worker != nil {
		p.worker.hangUp()
	}
	p.api.hangUp()
	if p.worker != nil {
		p.worker.close()
	}
	if p.store != nil {
		p.store.Close()
	}
}
