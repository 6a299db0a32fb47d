package check

import "github.com/leasestorm/leasestorm/sim/measure"

type standing uint8

const (
	inTime standing = iota
	tooLate
	unjudged
)

// held counts a change that happened now. It returns the limit and the result.
func (h *hooks) held(c promise) (limit int64, stands standing) {
	took := h.w.now - c.base
	limit, stands = c.by-c.base, inTime
	if !h.within(took, limit, c.base) {
		until, by := h.w.deadlines.due(c)
		if h.w.deadlines.wide(c, until) {
			h.excuse(by.name())
			return limit, unjudged
		}
		if by != nil {
			h.prolong(by, until-c.by)
		}
		if limit = until - c.base; !h.within(took, limit, c.base) {
			stands = tooLate
		}
	}
	h.exercise(c.of())
	h.near(took, h.applied(took, limit, c.base))
	return limit, stands
}

// closer reports whether the first time is closer to its limit, or further beyond it, than the second.
func closer(took, limit, than, thanLimit int64) bool {
	return thanLimit == 0 || ms(took)*ms(thanLimit) > ms(than)*ms(limit)
}

// near keeps the time that came closest to its limit, or furthest beyond it.
func (h *hooks) near(took, limit int64) {
	if closer(took, limit, h.worst, h.allowed) {
		h.worst, h.allowed = took, limit
	}
}

// wait is a change that must happen by its deadline. It is judged once: when the change happens, or at
// the deadline.
type wait struct {
	h       *hooks
	now     func() promise          // the promise, by what is known now
	pending func() bool             // false: nothing is judged any more; nil: true
	missed  func(limit int64)       // reports a missed deadline at once
	late    func(took, limit int64) // reports a late change when it comes, or at the end of the run
	excused func(by *injection)     // nil: the change is counted as excused
	took    *measure.Times          // nil: the times of the changes that came are not collected
	over    bool
	since   int64 // start of the measured time of the missed deadline
	limit   int64 // the limit that it missed; 0: none
}

func (h *hooks) expect(x wait) *wait {
	x.h = h
	x.look()
	return &x
}

func (x *wait) look() {
	w := x.h.w
	if x.over || w.phase == "end" || x.pending != nil && !x.pending() {
		return
	}
	p := x.now()
	if w.now <= p.base {
		w.at(max(p.by, w.next), x.look) // nothing ends the wait before the next event
		return
	}
	until, by := w.deadlines.due(p)
	wide := w.deadlines.wide(p, until)
	if wide {
		until = p.by + widest*int64(w.TTL)
	}
	if at := until + w.host.stall(p.base, max(w.now, until)); at > w.now {
		if by != nil && by.lasts() { // the deadline moves on with time, and nothing ends that before the next event
			at = max(at, w.next)
		}
		w.at(at, x.look)
		return
	}
	x.over = (wide || x.missed != nil) && x.excused == nil
	switch {
	case wide && x.excused != nil:
		x.excused(by)
	case wide:
		x.h.excuse(by.name())
	case x.missed != nil:
		x.count(p, w.now-p.base, until-p.base)
		x.missed(until - p.base)
	default:
		x.since, x.limit = p.base, until-p.base
		x.h.overdue = append(x.h.overdue, x)
	}
}

// came judges the change, which happens now, unless it has been judged already.
func (x *wait) came() (took, limit int64, stands standing) {
	if x.over {
		return 0, 0, unjudged
	}
	x.over = true
	p := x.now()
	if x.limit == 0 {
		took = x.h.w.now - p.base
		if limit, stands = x.h.held(p); stands != unjudged && x.took != nil {
			x.took.Add(took)
		}
	} else {
		took, limit, stands = x.h.w.now-x.since, x.limit, tooLate
		x.count(p, took, limit)
	}
	if stands == tooLate && x.late != nil {
		x.late(took, limit)
	}
	return took, limit, stands
}

// count counts a change that missed its deadline.
func (x *wait) count(p promise, took, limit int64) {
	x.h.exercise(p.of())
	x.h.near(took, limit)
	if x.took != nil {
		x.took.Add(took)
	}
}

// finish judges the changes that were due and have not come.
func (h *hooks) finish() {
	for _, x := range h.overdue {
		x.came()
	}
}
