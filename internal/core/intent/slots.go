package intent

import (
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
)

// slots is what this worker knows of each slot of the pool. All slices have an element for each slot.
type slots struct {
	names  []string
	mine   []*session  // session of this worker that has or tries it
	hint   []core.Time // until when another worker is known to have it
	hinted []core.Time // when it was last found to be another worker's
}

// never is before all time.
const never = core.Time(-1)

func newSlots(names []string) slots {
	n := len(names)
	return slots{names: names, mine: make([]*session, n), hint: make([]core.Time, n), hinted: slices.Repeat([]core.Time{never}, n)}
}

// next returns the next slot to try, -1 if there is none: one that no session of this worker has, and that was not found taken since
// began. Slots that another worker is known to have come last.
func (p *slots) next(began, now core.Time) int {
	next := -1
	for i := range p.names {
		if p.mine[i] != nil || p.hinted[i] >= began {
			continue
		}
		if p.hint[i] <= now {
			return i
		}
		if next < 0 {
			next = i
		}
	}
	return next
}

func (p *slots) try(i int, s *session) { s.slot, p.mine[i] = i, s }

// ours records that no other worker has a slot.
func (p *slots) ours(i int) { p.hint[i], p.hinted[i] = 0, never }

// held records that another worker has a slot, at least until the given time.
func (p *slots) held(i int, now, until core.Time) { p.hint[i], p.hinted[i] = until, now }

func (p *slots) free(s *session) {
	if s.slot >= 0 && p.mine[s.slot] == s {
		p.mine[s.slot] = nil
	}
	s.slot = -1
}

// unsettled reports whether another session's attempt at a slot is under way and may fail, or a slot is being given back. Redis may have
// freed the latter already, and a client may rely on that.
func (p *slots) unsettled() bool {
	return slices.ContainsFunc(p.mine, func(s *session) bool { return s != nil && (s.phase == tuner || s.phase == releasing) })
}
