// Package explore runs ranges of seeds in virtual time. [sim.Scenario.Swarm] draws a storm from each seed, the judge judges it in memory,
// and the package counts the changes that exercise each guarantee.
//
// An [Exploration] is a range or a shard of one. [Run] saves its coverage in a file and can resume from it after an interruption. [Merge]
// combines the files of several machines.
package explore
