package check

import (
	"fmt"
	"hash/fnv"
	"slices"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leasestorm/leasestorm/sim/history"
)

// modelCheck judges G1 and G3 a second time: porcupine checks sampled leases against a model of a lease. It follows the nodes' events by
// itself, so that an error in the world's state shows as a disagreement.
type modelCheck struct {
	w      *world
	every  uint32
	leases map[string]*sampled
}

// notSampled marks the leases outside the sample.
var notSampled = &sampled{}

// Bounds of the sample, so that the model check of a long run takes seconds, not minutes.
const (
	sampledLeases = 16
	sampledOps    = 20_000
	sampledTime   = 5 * time.Second // per lease
)

// sampled is one lease of the sample: its open windows and its operations so far.
type sampled struct {
	holders map[string]*window
	ops     []porcupine.Operation
	full    bool
}

type window struct{ fence, until int64 }

// leaseOp is an operation on the model: a trust window opens or closes, or a term begins.
type leaseOp struct {
	do    action
	inst  string
	fence int64 // of the term that begins
}

type action uint8

const (
	opens action = iota
	closes
	begins
)

// leaseState is the model: a lease has one holder, and its fence only grows.
type leaseState struct {
	holder string
	fence  int64
}

var leaseModel = porcupine.Model{
	Init: func() any { return leaseState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, op := state.(leaseState), input.(leaseOp)
		switch op.do {
		case opens:
			return s.holder == "", leaseState{op.inst, s.fence}
		case closes:
			return s.holder == op.inst, leaseState{"", s.fence}
		default:
			return op.fence > s.fence, leaseState{s.holder, op.fence}
		}
	},
}

func newModelCheck(w *world) *modelCheck {
	return &modelCheck{w: w, every: uint32(max(1, w.Sessions/sampledLeases)), leases: map[string]*sampled{}}
}

func (o *modelCheck) lease(s *session) *sampled {
	if s.sampled == nil {
		s.sampled = o.sample(s.id)
	}
	if s.sampled == notSampled {
		return nil
	}
	return s.sampled
}

func (o *modelCheck) sample(id string) *sampled {
	h := fnv.New32a()
	h.Write([]byte(id))
	if h.Sum32()%o.every != 0 || len(o.leases) >= sampledLeases {
		return notSampled
	}
	l := &sampled{holders: map[string]*window{}}
	o.leases[id] = l
	return l
}

func (o *modelCheck) event(e *history.Event) {
	switch e.Kind {
	case history.Acquired, history.Renewed, history.RenewFailed, history.Lost, history.Released:
		if l := o.lease(o.w.subject); l != nil && !o.w.reporter.asks { // the model knows windows only
			l.nodeEvent(e)
		}
	case history.Exited:
		for _, id := range sortedKeys(o.leases) {
			l := o.leases[id]
			for _, inst := range sortedKeys(l.holders) {
				if i := o.w.instances[inst]; i != nil && i.node != nil && i.node.name == e.Node {
					l.expire(e.T)
					l.close(inst, e.T)
				}
			}
		}
	}
}

func (l *sampled) nodeEvent(e *history.Event) {
	l.expire(e.T)
	held := l.holders[e.Instance]
	if held != nil && e.Kind != history.Acquired && e.Fence != 0 && held.fence != 0 && e.Fence != held.fence {
		if e.Kind != history.Renewed {
			return // a late event of an older term
		}
		l.close(e.Instance, e.T)
		held = nil
	}
	switch e.Kind {
	case history.Acquired:
		l.close(e.Instance, e.T)
		if e.Fence != 0 {
			l.op(leaseOp{begins, e.Instance, e.Fence}, e.T)
		}
		l.opened(e)
	case history.Renewed:
		if held == nil {
			l.opened(e)
		} else {
			held.until = max(held.until, e.Until)
		}
	default:
		l.close(e.Instance, e.T)
	}
}

func (l *sampled) opened(e *history.Event) {
	if e.Until != 0 && e.Until <= e.T {
		return
	}
	if l.full = l.full || len(l.ops) >= sampledOps; l.full {
		return
	}
	l.holders[e.Instance] = &window{fence: e.Fence, until: e.Until}
	l.op(leaseOp{do: opens, inst: e.Instance}, e.T)
}

func (l *sampled) expire(now int64) {
	for _, inst := range sortedKeys(l.holders) {
		if h := l.holders[inst]; h.until != 0 && h.until <= now {
			l.close(inst, h.until)
		}
	}
}

func (l *sampled) close(inst string, at int64) {
	if l.holders[inst] == nil {
		return
	}
	delete(l.holders, inst)
	l.op(leaseOp{do: closes, inst: inst}, at)
}

func (l *sampled) op(op leaseOp, at int64) {
	l.ops = append(l.ops, porcupine.Operation{ClientId: len(l.ops), Input: op, Call: at, Return: at})
}

// compare checks the sample against the model, and compares the results with those of G1 and G3.
func (o *modelCheck) compare(g *g1) {
	asked, agreed := 0, 0
	for _, id := range sortedKeys(o.leases) {
		l := o.leases[id]
		if len(o.w.session(id).deletes) > 0 || len(l.ops) == 0 {
			continue // the model does not know the exception for deleted keys
		}
		l.expire(o.w.now)
		if !o.w.complete { // other messages of the last instant may be missing
			l.ops = slices.DeleteFunc(l.ops, func(op porcupine.Operation) bool { return op.Call >= o.w.now })
		}
		sort.SliceStable(l.ops, func(i, j int) bool { return l.ops[i].Call < l.ops[j].Call })
		answer := porcupine.CheckOperationsTimeout(leaseModel, l.ops, sampledTime)
		if answer == porcupine.Unknown || l.full {
			continue
		}
		asked++
		ours := !g.broken[id] && !g.fences.broken[id]
		if ours == (answer == porcupine.Ok) {
			agreed++
			continue
		}
		g.untested = fmt.Sprintf("the harness contradicts itself: on session %s the model of a lease says %s, the overlap of trust "+
			"windows (%s) and the order of fences (%s) say %s", id, holdsText(answer == porcupine.Ok), g.v.ID, g.fences.v.ID, holdsText(ours))
	}
	if asked > 0 {
		g.note("second opinion (a model of a lease): agrees on %[2]d of %[1]d judged", asked, agreed)
	}
}

func holdsText(holds bool) string {
	if holds {
		return "it holds"
	}
	return "it is broken"
}
