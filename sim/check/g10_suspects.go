package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// others returns the messages so far of all instances but one about the lease.
func (k *key) others(but string) (out []said) {
	for _, s := range k.session.key.said {
		if s.inst != but {
			out = append(out, *s)
		}
	}
	slices.SortStableFunc(out, func(a, b said) int { return cmp.Compare(a.inst, b.inst) })
	return out
}

// deleter names the most likely cause of a deletion: the instance whose term was over and whose command may have arrived closest to it.
func (g *g10) deleter(suspects []said, at int64) string {
	var who said
	best := int64(0)
	for _, s := range suspects {
		off := g.off(s.inst, s.over, at)
		late := off > int64(time.Second) && (s.released != s.over || at > g.underWay(s.inst, s.over))
		if s.over != 0 && s.over <= at+eventAllowance && !late && (who.inst == "" || off < best) {
			who, best = s, off
		}
	}
	if who.inst == "" {
		return ""
	}
	return fmt.Sprintf(", most likely by %s, which had lost or released it at %s", g.who(who.inst), clock(who.over))
}

// off returns the distance of at from the time at which Redis may execute a command that ends a term. That is at once, or as late as a
// fault of the node delays it, or when that fault is healed.
func (g *g10) off(inst string, said, at int64) int64 {
	apart := func(t int64) int64 { return max(at-t, t-at) }
	off := apart(said)
	for inj, r := range g.w.reaching(said, nil, g.w.reach) {
		switch {
		case r.from > said+int64(time.Second) || inj.node != g.w.instance(inst).node:
		case inj.has(fault.Partitions):
			off = min(off, apart(r.to))
		case inj.has(fault.Lingers):
			off = min(off, apart(said+inj.Ms*int64(time.Millisecond)))
		}
	}
	return off
}

// extender names an instance with a message about the lease within a second of at. One that was granted it afterwards owns it.
func (g *g10) extender(suspects []said, at int64) string {
	for _, s := range suspects {
		if s.at > 0 && s.granted <= at && max(s.at-at, at-s.at) <= int64(time.Second) {
			return fmt.Sprintf(", and %s, which did not own it, renewed or released it at %s", g.who(s.inst), clock(s.at))
		}
	}
	return ""
}
