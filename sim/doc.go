// Package sim runs a storm: nodes that share polling sessions through Redis, a plan of faults that breaks them, and a
// judge that says guarantee by guarantee (docs/guarantees.md) whether the promises held.
//
// A [Scenario] says what to run, all of it optional. [Scenario.Resolve] makes a [Config] of it in which every parameter
// is set and none contradicts another. [Run] runs the Config on an [Engine], saves history, plan and logs in a folder of
// the run's own, and has them judged from there, so that the verdict of a saved run can be had again at any time.
package sim
