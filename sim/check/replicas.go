package check

import "slices"

// TopologySentinel is a Redis of a master and replicas with sentinels. TopologyCluster is a Redis Cluster, of which one shard has the
// leases. A grant by one server need not count, and a deposed master may live on. So the guarantees that are never excused are judged by
// the nodes' messages and the target's record. The others are judged if the history shows acknowledgements (Params.Followed).
const (
	TopologySentinel = "sentinel"
	TopologyCluster  = "cluster"
)

// Replicated reports whether a topology has several servers.
func Replicated(topology string) bool {
	return topology == TopologySentinel || topology == TopologyCluster
}

func (p Params) replicated() bool { return Replicated(p.Topology) }

// notJudged is the detail of a guarantee that is not judged in a run.
const notJudged = "not judged with real replicas yet"

// judges reports whether a run of these parameters can be judged by a guarantee.
func (p Params) judges(id string) bool {
	return !p.replicated() || p.Followed || slices.Contains(Safety(p.System), id)
}

// shows reports whether the grants that Redis shows count, as they do with one server.
func (p Params) shows() bool { return p.Tap && !p.replicated() }

// limited resets the verdicts of guarantees that are not judged.
func (r *Result) limited(p Params) {
	for i := range r.Verdicts {
		if v := &r.Verdicts[i]; !p.judges(v.ID) {
			*v = Verdict{ID: v.ID, Spec: v.Spec, Limit: v.Limit, Unit: v.Unit, Verdict: Unknown, Detail: notJudged}
		}
	}
}
