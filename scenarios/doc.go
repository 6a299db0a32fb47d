// Package scenarios holds the promises of the specification as storms that anybody can run: one spec for every acceptance
// scenario (US1-1 …), edge case (EC-1 …, in the order in which they are listed) and success criterion (SC-001 …) of the
// polling lease specification, labelled with its number (docs/specification.md).
//
// The text of a spec states the promise. Its entry gives the fleet, the plan of faults and the guarantees
// (docs/guarantees.md) that must be put to the test and hold. Times are those of the specification; at speed 10, the
// default, a tenth of them passes. There is no logic here: the storm is sim's, and so is the verdict.
//
//	make chaos                  all of them
//	make chaos LABELS=SC-002    one
package scenarios
