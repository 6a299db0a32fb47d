package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/lease/election"
)

// Election registers the collector of this process's part in an election, with
// the label election, its leader key. stop unregisters it. The collector reads
// the member's own counters, so it costs nothing between two scrapes. The error
// is the registry's.
func Election(r prometheus.Registerer, e *election.Election) (stop func(), err error) {
	r = prometheus.WrapRegistererWith(prometheus.Labels{"election": e.Key()}, r)
	c := member{e}
	if err := r.Register(c); err != nil {
		return nil, err
	}
	return func() { r.Unregister(c) }, nil
}

type member struct{ e *election.Election }

var (
	leaderDesc         = describe("election_leader", "1 while this member leads.")
	memberHealthDesc   = describe("election_health", "1 for the current state of the member's Health.", "state")
	memberBlockedDesc  = describe("election_blocked_seconds", "Time until this member can be elected.")
	memberWarningDesc  = describe("election_warning", warningHelp, "warning")
	leaderTakeoverDesc = describe("election_takeover_seconds", "From the expiry of the last leader's key until this member led.")
	leaderHandoverDesc = describe("election_handover_seconds", "From the last leader's notice of release until this member led.")
)

var counts = []struct {
	desc *prometheus.Desc
	of   func(election.Stats) int64
}{
	{describe("election_leaderships_total", "Leaderships that this member won."), func(s election.Stats) int64 { return s.Acquired }},
	{describe("election_leaderships_lost_total", "Leaderships of this member that ended."), func(s election.Stats) int64 { return s.Lost }},
	{describe("election_attempts_failed_total", "Attempts to lead that failed."), func(s election.Stats) int64 { return s.Failed }},
	{describe("election_leader_changes_total", "Times another leader or term was seen."),
		func(s election.Stats) int64 { return s.LeaderChanges }},
	{describe("election_duplicates_total", "Times another process was seen with this member's ID."),
		func(s election.Stats) int64 { return s.DuplicateInstances }},
}

// Describe implements prometheus.Collector.
func (m member) Describe(ch chan<- *prometheus.Desc) {
	ch <- leaderDesc
	ch <- memberHealthDesc
	ch <- memberBlockedDesc
	ch <- memberWarningDesc
	for _, c := range counts {
		ch <- c.desc
	}
	ch <- leaderTakeoverDesc
	ch <- leaderHandoverDesc
}

// Collect implements prometheus.Collector.
func (m member) Collect(ch chan<- prometheus.Metric) {
	leads, stats := 0.0, m.e.Stats()
	if m.e.IsLeader() {
		leads = 1
	}
	ch <- gauge(leaderDesc, leads)
	tellHealth(ch, memberHealthDesc, memberBlockedDesc, memberWarningDesc, m.e.Health())
	for _, c := range counts {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(c.of(stats)))
	}
	takeovers, handovers := inner.Of(m.e).(interface {
		Vacancies() (takeovers, handovers inner.Histogram)
	}).Vacancies()
	ch <- histogramOf(leaderTakeoverDesc, takeovers)
	ch <- histogramOf(leaderHandoverDesc, handovers)
}
