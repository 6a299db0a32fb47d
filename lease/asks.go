package lease

import (
	"context"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// asks has the terms whose release an operator has requested in a notice, but for which Redis has not been read yet. There is at
// most one term per held lease. The loop owns the fields of asks.
type asks struct {
	*instance
	table    *table
	requests *requests
	giveBack func(h *Lease, from string) // ends the work under a term

	waiting map[string]redisstore.Give
	reading bool
}

// askPause is the least time between two reads, because anybody who may publish can cause reads.
const askPause = 20 * time.Millisecond

// noticed handles a notice that an operator requests a lease (leasectl release). Anybody who may publish can send one, and can
// guess a term's fence from the microseconds in which it may have begun. So the instance obeys only a request that is stored in
// Redis. noticed runs in the loop.
func (a *asks) noticed(n *core.Notice) {
	asked, ok := redisstore.GiveOf(n)
	h := a.askedHold(asked)
	if !ok || h == nil {
		return
	}
	if a.waiting == nil {
		a.waiting = map[string]redisstore.Give{}
	}
	// Another notice is the same request. Keeping its text would keep the whole message, up to a MiB.
	a.waiting[h.name] = redisstore.Give{Lease: h.name, Owner: a.cfg.InstanceID, Fence: asked.Fence}
	a.read()
}

// askedHold returns the requested hold. It returns nil if the notice is late or names another term. A keeper with a listener
// ignores requests, because its leader or intent worker would mistake the release for its own end. askedHold runs in the loop.
func (a *asks) askedHold(asked redisstore.Give) *Lease {
	if a.draining || asked.Owner != a.cfg.InstanceID || a.keeper && a.cfg.Notify != nil {
		return nil
	}
	h := a.table.get(asked.Lease)
	if h == nil || h.fence != asked.Fence || h.asked() {
		return nil
	}
	return h
}

// read starts a read of the requests for the waiting terms, unless a read is in flight. It runs in the loop.
func (a *asks) read() {
	if a.reading || len(a.waiting) == 0 {
		return
	}
	waiting := a.waiting
	a.waiting, a.reading = nil, true
	a.workers.Go(func() {
		for _, asked := range waiting {
			if asked.From = a.asker(asked); asked.From != "" {
				a.post(func() {
					if h := a.askedHold(asked); h != nil {
						a.giveBack(h, asked.From)
					}
				})
			}
		}
		pause := time.NewTimer(askPause)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-a.ctx.Done():
		}
		a.post(func() {
			a.reading = false
			a.read()
		})
	})
}

func (a *asks) asker(asked redisstore.Give) string {
	ctx, cancel := context.WithTimeout(a.ctx, a.cfg.OpTimeout)
	defer cancel()
	done, err := a.requests.outsider(ctx)
	if err != nil {
		return ""
	}
	defer done()
	return a.store.Asked(ctx, asked)
}
