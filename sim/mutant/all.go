// Package mutant breaks guarantees on purpose and proves that the judge attributes each break to the right guarantee.
//
// A mutant alters data at a seam of the virtual engine: a core's input and output, a script, the effects of election and intent machines,
// or an API's answer. The library's code is unchanged, so a mutant survives refactoring. The test plays seeds 1, 2, 3, … until one breaks
// a guarantee. That seed must break the mutant's own guarantee, and none without the mutant.
//
// sim/mutant/hunt changes random statements of the code itself and measures the share that the storms detect.
package mutant

import (
	"fmt"
	"slices"
)

// All returns all mutants.
func All() []Mutant {
	return slices.Concat(rules, replicas, scripts, fresh, others, elections, intents)
}

// Named returns the mutant of that name, or an error.
func Named(name string) (Mutant, error) {
	all := All()
	i := slices.IndexFunc(all, func(m Mutant) bool { return m.Name == name })
	if i < 0 {
		return Mutant{}, fmt.Errorf("no mutant is called %q; sim/mutant lists them", name)
	}
	return all[i], nil
}
