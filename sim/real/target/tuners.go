package target

import (
	"net/http"
	"strconv"
	"sync"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/protocol"
)

// tuners is the witness of a storm of intents: slots beside the proxies that serve pipelines. A pipeline is one request, POST
// /tune/{slot}, whose response lasts as long as the slot serves it. DELETE of the same URL ends it cleanly. If slot or service has seen a
// newer fence, the pipeline is refused with 409. Otherwise it aborts the pipelines that slot and service served. All methods are safe for
// concurrent use.
type tuners struct {
	target *Target

	mu     sync.Mutex
	places map[string]*fencedPlace
}

// fencedPlace is a slot or a service, which serves one pipeline at a time.
type fencedPlace struct {
	fence   int64
	current *pipeline
}

type pipeline struct {
	n        int64
	slot     string // name in the history
	service  string
	instance string
	fence    int64 // of the slot's lease
	end      chan struct{}
	over     bool
}

func newTuners(t *Target) *tuners {
	return &tuners{target: t, places: map[string]*fencedPlace{}}
}

func (u *tuners) register(mux *http.ServeMux) {
	mux.HandleFunc("POST /tune/{slot}", u.tune)
	mux.HandleFunc("DELETE /tune/{slot}", u.stop)
}

type claim struct {
	instance, slot, service, session string
	fence, serviceFence              int64
}

func readClaim(w http.ResponseWriter, req *http.Request) (c claim, ok bool) {
	h := req.Header
	c = claim{
		instance: h.Get("X-Instance"), slot: "tuner:" + req.PathValue("slot"), service: "service:" + h.Get("X-Service"),
		session: h.Get("X-Session"),
	}
	var err, serviceErr error
	c.fence, err = protocol.ParseFence(h.Get("X-Fence"))
	c.serviceFence, serviceErr = protocol.ParseFence(h.Get("X-Service-Fence"))
	ok = c.instance != "" && c.service != "service:" && c.session != "" && err == nil && serviceErr == nil
	if !ok {
		http.Error(w, "wanted are X-Instance, X-Service, X-Session and positive X-Fence and X-Service-Fence", http.StatusBadRequest)
	}
	return c, ok
}

func (u *tuners) tune(w http.ResponseWriter, req *http.Request) {
	c, ok := readClaim(w, req)
	if !ok {
		return
	}
	s, newer := u.accept(c)
	if s == nil {
		http.Error(w, "fence older than "+strconv.FormatInt(newer, 10), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	select {
	case <-s.end:
	case <-u.target.stop:
		u.finish(s, history.Aborted, "the run is over")
	case <-req.Context().Done():
		u.finish(s, history.Aborted, "gone")
	}
}

// accept decides on a pipeline, for slot and service in one step, and records it. It returns nil and the newer fence, if there is one.
func (u *tuners) accept(c claim) (*pipeline, int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	slot, service := u.place(c.slot), u.place(c.service)
	n, now := u.target.number.Add(1), u.target.clock.Now()
	if c.fence < slot.fence || c.serviceFence < service.fence {
		e := history.Event{T: now, Kind: history.Rejected, Session: c.slot, Instance: c.instance, Fence: c.fence, N: n}
		newer := slot.fence
		if c.fence >= slot.fence {
			e.Session, e.Fence, newer = c.service, c.serviceFence, service.fence
		}
		e.Reason = "fence older than " + strconv.FormatInt(newer, 10)
		u.target.Rejected.Add(1)
		u.target.rec.Add(e)
		return nil, newer
	}
	s := &pipeline{
		n: n, slot: c.slot, service: c.service, instance: c.instance, fence: c.fence, end: make(chan struct{}),
	}
	u.target.Polls.Add(1)
	olds := []*pipeline{slot.current, service.current}
	for _, e := range []history.Event{
		{Session: c.slot, Fence: c.fence, Reason: c.session}, {Session: c.service, Fence: c.serviceFence, Reason: c.session},
	} {
		e.T, e.Kind, e.Instance, e.N = now, history.Arrived, c.instance, n
		u.target.rec.Add(e)
		u.target.tell(&e)
	}
	for _, old := range olds {
		if old != nil && !old.over {
			// A newer fence is the regular takeover from a frozen or dead node. The judge decides whether this one was.
			if c.fence == old.fence {
				u.target.Violations.Add(1)
			}
			u.over(old, history.Aborted, "newer fence")
		}
	}
	slot.fence, slot.current = c.fence, s
	service.fence, service.current = c.serviceFence, s
	return s, 0
}

func (u *tuners) place(name string) *fencedPlace {
	p := u.places[name]
	if p == nil {
		p = &fencedPlace{}
		u.places[name] = p
	}
	return p
}

func (u *tuners) finish(s *pipeline, kind history.Kind, why string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over(s, kind, why)
}

// over records the end of a pipeline. mu is held.
func (u *tuners) over(s *pipeline, kind history.Kind, why string) {
	if s.over {
		return
	}
	s.over = true
	close(s.end)
	for _, name := range []string{s.slot, s.service} {
		u.target.rec.Add(history.Event{
			T: u.target.clock.Now(), Kind: kind, Session: name, Instance: s.instance, N: s.n, Reason: why,
		})
		if p := u.places[name]; p.current == s {
			p.current = nil
		}
	}
}

// stop ends a pipeline cleanly. The worker may release the leases only after the response to stop.
func (u *tuners) stop(w http.ResponseWriter, req *http.Request) {
	c, ok := readClaim(w, req)
	if !ok {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if p := u.places[c.slot]; p != nil && p.current != nil && p.current.instance == c.instance && p.current.fence == c.fence {
		u.over(p.current, history.Served, "")
	}
	w.WriteHeader(http.StatusNoContent)
}
