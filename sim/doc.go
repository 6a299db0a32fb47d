// Package sim runs a storm: nodes that share polling sessions through Redis, a plan of faults, and a judge that decides for each
// guarantee (docs/guarantees.md) whether it held.
//
// A [Scenario] describes a run, and all its fields are optional. [Scenario.Resolve] returns a [Config] in which every parameter is set
// and none contradicts another. [Run] runs the Config on an [Engine], saves history, plan and logs in the run's own folder, and judges
// them from there. The verdict of a saved run can therefore be repeated at any time.
package sim
