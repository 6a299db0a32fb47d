package check

import (
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"github.com/leasestorm/leasestorm/sim/history"
)

// leaseOp is an operation on the model of a lease: a trust window opens or closes, or a term begins.
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

// modelled is a lease as the model sees it: its open windows and its operations so far.
type modelled struct {
	until map[string]int64 // end of each open window, by instance
	fence map[string]int64
	ops   []porcupine.Operation
}

// follow derives the operations from an event by itself, so that an error in the judge's state shows as a disagreement.
func (l *modelled) follow(e *history.Event) {
	l.expire(e.T)
	_, open := l.until[e.Instance]
	if open && e.Kind != history.Acquired && e.Fence != 0 && l.fence[e.Instance] != 0 && e.Fence != l.fence[e.Instance] {
		if e.Kind != history.Renewed {
			return // a late event of an older term
		}
		l.close(e.Instance, e.T)
		open = false
	}
	switch {
	case e.Kind == history.Acquired:
		l.close(e.Instance, e.T)
		if e.Fence != 0 {
			l.op(leaseOp{begins, e.Instance, e.Fence}, e.T)
		}
		l.open(e)
	case e.Kind != history.Renewed:
		l.close(e.Instance, e.T)
	case open:
		l.until[e.Instance] = max(l.until[e.Instance], e.Until)
	default:
		l.open(e)
	}
}

func (l *modelled) open(e *history.Event) {
	if e.Until > e.T {
		l.until[e.Instance], l.fence[e.Instance] = e.Until, e.Fence
		l.op(leaseOp{do: opens, inst: e.Instance}, e.T)
	}
}

func (l *modelled) expire(now int64) {
	for _, inst := range sortedKeys(l.until) {
		if l.until[inst] <= now {
			l.close(inst, l.until[inst])
		}
	}
}

func (l *modelled) close(inst string, at int64) {
	if _, open := l.until[inst]; open {
		delete(l.until, inst)
		l.op(leaseOp{do: closes, inst: inst}, at)
	}
}

func (l *modelled) op(op leaseOp, at int64) {
	l.ops = append(l.ops, porcupine.Operation{ClientId: len(l.ops), Input: op, Call: at, Return: at})
}

// holds reports whether the operations fit the model.
func (l *modelled) holds() bool {
	l.expire(never)
	slices.SortStableFunc(l.ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	return porcupine.CheckOperations(leaseModel, l.ops)
}

// G1 and G3 judge arbitrary messages of two instances as porcupine does by a model of a lease.
func TestModelAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reportable := []history.Kind{
			history.Acquired, history.Acquired, history.Renewed, history.RenewFailed, history.Lost, history.Released,
		}
		var events []history.Event
		model := modelled{until: map[string]int64{}, fence: map[string]int64{}}
		at, fence := int64(0), int64(0)
		held := map[string]int64{}
		for range rapid.IntRange(0, 30).Draw(t, "n") {
			at += rapid.Int64Range(1, 900).Draw(t, "step") * int64(time.Millisecond)
			inst := rapid.SampledFrom([]string{"A", "B"}).Draw(t, "instance")
			k := rapid.SampledFrom(reportable).Draw(t, "kind")
			if k == history.Acquired {
				fence += rapid.Int64Range(0, 3).Draw(t, "rise")
				held[inst] = fence
			}
			e := history.Event{T: at, Kind: k, Node: inst, Instance: inst, Session: "s", Fence: held[inst]}
			if k == history.Acquired || k == history.Renewed {
				e.Until = at + rapid.Int64Range(0, 3000).Draw(t, "trust")*int64(time.Millisecond) + 1 // 0 is no window
			}
			model.follow(&e)
			events = append(events, e)
		}
		events = append(events, history.Event{T: at + int64(time.Minute), Kind: history.Phase, Reason: "end"})
		r, err := Judge(storyParams(), sequence(events), nil)
		if err != nil {
			t.Fatal(err)
		}
		owner, _ := r.Verdict("G1")
		fences, _ := r.Verdict("G3")
		if holds := model.holds(); holds == (owner.Verdict == Fail || fences.Verdict == Fail) {
			t.Fatalf("the model holds: %v; G1 %s: %s; G3 %s: %s", holds, owner.Verdict, owner.Detail, fences.Verdict, fences.Detail)
		}
	})
}
