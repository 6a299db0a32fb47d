// Package sim runs a storm: nodes share polling sessions through Redis, a plan injects faults, and a judge decides whether each guarantee
// (docs/guarantees.md) held.
//
// A [Scenario] describes a run; all its fields are optional. [Scenario.Resolve] returns a consistent [Config] with every parameter set.
// [Run] runs the Config on an [Engine], saves history, plan and logs in the run's folder, and judges the run from that folder, so a saved
// run can be judged again.
package sim
