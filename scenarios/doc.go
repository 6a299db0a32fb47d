// Package scenarios tests the polling lease specification with storms. It has one spec for every acceptance scenario (US1-1 …), edge
// case (EC-1 …, in the specification's order) and success criterion (SC-001 …), labelled with its number (docs/specification.md).
//
// A spec's text states the promise. Its entry gives the fleet, the plan of faults and the guarantees (docs/guarantees.md) that the storm
// must exercise and that must hold. Times are those of the specification; at the default speed 10, a run takes a tenth of them.
//
//	make chaos                  all of them
//	make chaos LABELS=SC-002    one
package scenarios
