// Package storetest is the test suite of a lease store. The real store and every model must pass it.
package storetest

import (
	"maps"
	"slices"
	"testing"
)

// Run runs the suite.
func Run(t *testing.T, start New) {
	groups := map[string][]check{
		"Acquire":   acquireChecks,
		"Renew":     renewChecks,
		"Release":   releaseChecks,
		"Observe":   observeChecks,
		"Nodes":     nodeChecks,
		"Epoch":     epochChecks,
		"Reassert":  reassertChecks,
		"Failure":   failureChecks,
		"Bootstrap": bootstrapChecks,
		"Walk":      walkChecks,
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		t.Run(name, func(t *testing.T) {
			for _, c := range groups[name] {
				t.Run(c.name, func(t *testing.T) { c.play(t, start) })
			}
		})
	}
}
