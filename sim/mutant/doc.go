// Package mutant breaks leases on purpose and proves that the judge sees each of them, by the guarantee that it breaks.
//
// A mutant is a few words changed in a source file of the library: a rule of internal/core, a Lua script, or the shell's
// use of them. The file on disk stays as it is; the change is given to the go command as an overlay, so production code
// has no switch, hook or build tag for it. The words that are replaced must stand in their file exactly once: a mutant
// that a refactoring has disarmed is an error, not a survivor.
//
// A mutant names its operator, the kind of its change, and every operator is tried on scripts, shell, elections and intents. Those
// that do not look at a comparison of a script are found in the script itself (Drops). Each proves by a mark that what is changed
// in it ran, also where nothing breaks.
//
// How a mutant is caught:
//
//   - in virtual time: seeds 1, 2, 3, … of the swarm, or of a scenario that narrows it, until one breaks a guarantee;
//   - by a test under testing/synctest or against a server, where the fault is in what the virtual engine replaces.
//
// The first thing that breaks must be the mutant's own guarantee: the first seed that breaks any must break that one. And
// it must be the mutant that breaks it: the same seeds and tests are run with nothing changed, and must hold.
package mutant
