package check

import "slices"

// TopologySentinel is a Redis of a master and replicas, watched by sentinels; TopologyCluster is a Redis Cluster, of which one shard has
// the leases. A grant of one server need not count, and a deposed master may live on. So guarantees that are never excused are judged by
// what nodes say and what reaches the target, and the others where the history shows what was acknowledged (Params.Followed).
const (
	TopologySentinel = "sentinel"
	TopologyCluster  = "cluster"
)

// Replicated reports whether a topology is one of several servers.
func Replicated(topology string) bool {
	return topology == TopologySentinel || topology == TopologyCluster
}

func (p Params) replicated() bool { return Replicated(p.Topology) }

// notJudged begins the detail of a guarantee that is not judged in a run, and why.
const notJudged = "not judged with real replicas yet"

// judges reports whether a run of these parameters can hold a guarantee.
func (p Params) judges(id string) bool {
	return !p.replicated() || p.Followed || slices.Contains(Safety(p.System), id)
}

// shows reports whether what Redis grants is what counts: with one server it is.
func (p Params) shows() bool { return p.Tap && !p.replicated() }

// limited takes back what was found of guarantees that are not judged.
func (r *Result) limited(p Params) {
	for i := range r.Verdicts {
		if v := &r.Verdicts[i]; !p.judges(v.ID) {
			*v = Verdict{ID: v.ID, Spec: v.Spec, Limit: v.Limit, Unit: v.Unit, Verdict: Unknown, Detail: notJudged}
		}
	}
}
