package storetest

import (
	"fmt"
	"math/rand/v2"

	"github.com/leasestorm/leasestorm/internal/core"
)

var walkChecks = func() []check {
	var out []check
	for seed := range uint64(5) {
		out = append(out, check{name: fmt.Sprint("seed ", seed), run: func(e *env) { e.walk(seed) }})
	}
	return out
}()

// walk draws 400 actions from a seed and compares each result with the simplest model. No lease or quarantine ends during it.
func (e *env) walk(seed uint64) {
	w := &walker{env: e, rng: rand.New(rand.NewPCG(seed, 1)), leases: map[string]*plain{}}
	for _, id := range []string{"x", "y", "z"} {
		w.leases[id] = &plain{}
	}
	for range 400 {
		w.step()
	}
}

type walker struct {
	*env
	rng        *rand.Rand
	leases     map[string]*plain
	quarantine bool
}

type plain struct {
	owner string
	fence int64
	top   int64
}

func (w *walker) step() {
	w.Helper()
	id := []string{"x", "y", "z"}[w.rng.IntN(3)]
	owner := []string{"a", "b", "c"}[w.rng.IntN(3)]
	l := w.leases[id]
	fence := l.fence + []int64{0, 0, 0, -1, 1}[w.rng.IntN(5)]
	switch draw := w.rng.IntN(100); {
	case draw < 35:
		w.acquire(l, id, owner)
	case draw < 55:
		want := core.OutLost
		if l.owner == owner {
			want = core.OutRenewed
		}
		w.want(core.Op{Kind: core.OpRenew, Owner: owner, Items: items(id)}, want)
	case draw < 75:
		want := core.OutLost
		if l.owner == owner && l.fence != 0 && l.fence == fence {
			want, l.owner = core.OutReleased, ""
		}
		w.want(core.Op{Kind: core.OpRelease, Owner: owner, Items: term(id, fence)}, want)
	case draw < 88:
		w.reassert(l, id, owner, max(1, fence))
	case draw < 92:
		w.h.DeleteLease(id)
		l.owner = ""
	case draw < 94:
		w.h.DeleteFence(id)
		l.fence = 0
	case draw < 96:
		w.h.ForgetScripts()
	case draw < 98:
		w.h.Flush()
		w.quarantine = true
		for _, l := range w.leases {
			l.owner, l.fence = "", 0
		}
		w.learn()
	default:
		// An operator knows that nobody believes in any lease.
		for id, l := range w.leases {
			w.h.DeleteLease(id)
			l.owner = ""
		}
		w.bootstrap()
		w.quarantine = false
	}
	w.owned(id, l.owner)
}

func (w *walker) acquire(l *plain, id, owner string) {
	w.Helper()
	want := core.OutGranted
	switch {
	case l.owner != "" && l.owner != owner:
		want = core.OutHeld
	case w.quarantine:
		want = core.OutQuarantine
	case l.owner == owner:
		want = core.OutAdopted
	}
	// Every instance sends the highest fence that it has seen. Here all instances have seen all fences.
	r := w.want(core.Op{Kind: core.OpAcquire, Owner: owner, Fence: l.top, Items: items(id)}, want)[0]
	switch want {
	case core.OutHeld:
		w.held(r, l.owner)
	case core.OutGranted, core.OutAdopted:
		if r.Fence <= l.top {
			w.Fatalf("lease %q: fence %d after %d", id, r.Fence, l.top)
		}
		*l = plain{owner, r.Fence, r.Fence}
	}
}

func (w *walker) reassert(l *plain, id, owner string, fence int64) {
	w.Helper()
	want := core.OutReasserted
	switch {
	case !w.quarantine:
		want = core.OutClosed
	case l.fence > fence:
		want = core.OutSuperseded
	default:
		l.owner, l.fence, l.top = owner, fence, max(l.top, fence)
	}
	w.want(core.Op{Kind: core.OpReassert, Owner: owner, Items: term(id, fence)}, want)
}
