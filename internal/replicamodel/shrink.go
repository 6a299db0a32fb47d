package replicamodel

import (
	"slices"
	"strings"
)

// Shrink returns the log of a shorter run than the one that a seed draws, in which something breaks too; nil where it does not.
// Faults are left out as long as one of some orders of messages still breaks it.
func Shrink(seed uint64, p Protocol, s Storm) []string {
	w := play(seed, p, s, draw(seed, s), true)
	if !w.books.broken() {
		return nil
	}
	faults := slices.DeleteFunc(draw(seed, s), func(f fault) bool { return f.at > w.now })
	best := shortest(seed, p, s, faults)
	for again := best != nil; again; {
		again = false
		for i := len(faults) - 1; i >= 0; i-- {
			less := slices.Delete(slices.Clone(faults), i, i+1)
			if x := shortest(seed, p, s, less); x != nil {
				faults, best, again = less, x, true
			}
		}
	}
	if best == nil {
		return nil
	}
	return excerpt(best.log)
}

// shortest is the shortest broken run of 150 orders of messages.
func shortest(seed uint64, p Protocol, s Storm, faults []fault) (best *world) {
	for i := range uint64(150) {
		order := seed
		if i > 0 {
			order = seed*1000 + i
		}
		if w := play(order, p, s, faults, false); w.books.broken() && (best == nil || len(w.log) < len(best.log)) {
			best = w
			if i > 20 {
				break
			}
		}
	}
	return best
}

// excerpt is what a log says at its end of the nodes and of the lease that broke; of what a script did again and again, the last.
func excerpt(log []string) (out []string) {
	which := "L0"
	if strings.Contains(log[len(log)-1], " L1") {
		which = "L1"
	}
	seen := map[string]bool{}
	for _, line := range slices.Backward(log) {
		what := line[7:]
		if strings.Contains(what, " L") && !strings.Contains(what, which) || len(out) == 24 {
			continue
		}
		if (strings.Contains(what, " gets ") || strings.Contains(what, "asserts")) && seen[what] {
			continue
		}
		seen[what] = true
		out = append(out, line)
	}
	slices.Reverse(out)
	return out
}
