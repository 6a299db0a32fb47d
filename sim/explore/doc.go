// Package explore runs ranges of seeds in virtual time, each a storm that [sim.Scenario.Swarm] draws, judged in memory, and
// counts what they put to the test.
//
// An [Exploration] is a range or a shard of one; [Run] keeps what it covered in a file, from which it goes on after an
// interruption, and [Merge] adds up the files of many machines.
package explore
