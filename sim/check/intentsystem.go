package check

import "github.com/leasestorm/leasestorm/sim/nodelogs"

// intentSystem is the system of intents and workers: I1 to I7 (docs/guarantees-systems.md).
var intentSystem = &system{
	name: SystemIntents,
	guarantees: []guarantee{
		{Verdict{ID: "I1", Spec: []string{"ADR-003 3.2"}, Unit: "pipelines too many"}, "one pipeline"},
		{Verdict{ID: "I2", Spec: []string{"ADR-003 3.3", "ADR-003 5.1"}, Unit: "starts too many or lost"}, "one session"},
		{Verdict{ID: "I3", Spec: []string{"ADR-003 3.2"}, Unit: "ms"}, "nothing is lost"},
		{Verdict{ID: "I4", Spec: []string{"ADR-003 6"}, Unit: "effects of refused requests"}, "refused, no effect"},
		{Verdict{ID: "I5", Spec: []string{"ADR-003 3.5", "ADR-003 5.2"}, Unit: "breaches of contract"}, "busy contract"},
		{Verdict{ID: "I6", Spec: []string{"ADR-003 5.3"}, Unit: "ms"}, "slots come back"},
		{Verdict{ID: "I7", Spec: []string{}, Unit: "commands"}, "quiet"},
	},
	safety: 2,
	checkers: func(*nodelogs.Logs) []checker {
		of := intentRule{book: newIntents()}
		return []checker{
			&i1{intentRule: of, newest: map[string]*pipeline{}}, &i2{intentRule: of}, &i3{intentRule: of},
			&i4{intentRule: of}, &i5{intentRule: of, used: map[string]int64{}, busy: map[string]int{}},
			&i6{intentRule: of, idle: map[idle]*spell{}}, &g14{},
		}
	},
}

// intentRule is the base of the checkers of I1 to I6.
type intentRule struct {
	hooks
	book *intents
}

func (g *intentRule) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.book.w = w
	if !w.Tap && v.ID != "I1" && v.ID != "I3" {
		g.untested = "what Redis stored was not recorded"
	}
}

// spell is a time in which a state lasts that must end by a deadline. Its wait is nil while the state does not last.
type spell struct {
	*wait
	from int64 // its start, or a later event from which the deadline counts
}

// follow begins the wait when the state begins, and judges it when the state ends.
func (o *spell) follow(h *hooks, lasts bool, x wait) {
	switch {
	case lasts && o.wait == nil && h.w.phase != "end":
		o.from = h.w.now
		o.wait = h.expect(x)
	case !lasts && o.wait != nil:
		o.came()
		o.wait = nil
	}
}

// drop ends the wait without a judgement.
func (o *spell) drop() {
	if o.wait != nil {
		o.over, o.wait = true, nil
	}
}
