// Package metrics exports an instance's leases, polls and elections to
// Prometheus. It is optional: nothing else in lease, poll and election imports
// the Prometheus client. docs/performance.md has its cost.
//
//	leasestorm_leases_held                        leases under which work may begin now
//	leasestorm_leases_uncertain                   terms under which no work may begin until a renewal succeeds
//	leasestorm_lease_acquisitions_total{result}   attempts that were answered or given up: acquired, or the cause (held,
//	                                              quarantine, no answer, …)
//	leasestorm_lease_renewals_total{result}       renewals: renewed, or the cause
//	leasestorm_lease_terms_ended_total{end,cause} ended terms: lost (expired, taken, gone, …) or released (requested,
//	                                              rebalance, drain, …)
//	leasestorm_lease_renewal_seconds              from sending a renewal to its success
//	leasestorm_lease_margin_seconds               rest of the trust window when a renewal succeeded
//	leasestorm_lease_uncertain_seconds_total      time that terms were uncertain, added when the uncertainty ends
//	leasestorm_lease_yield_seconds                from the request to end the work under a lease until its release
//	leasestorm_lease_takeover_seconds             from the expiry of the last owner's key, as last read, until the lease was acquired
//	leasestorm_lease_handover_seconds             from the notice of the last owner's release until the lease was acquired
//	leasestorm_instance_health{state}             1 for the state of Health, 0 for the others
//	leasestorm_instance_blocked_seconds           remaining time without grants: a quarantine, or a jump of Redis' clock
//	leasestorm_instance_warning{warning}          1 for each that limits the instance (lease.Health): notices-unheard,
//	                                              replicas-surplus, withdrawn
//	leasestorm_sessions                           known and shared sessions; like the next two only of a *lease.Manager
//	leasestorm_sessions_skipped                   malformed sessions, which are left out
//	leasestorm_sessions_unread_seconds            for how long reading the sessions has failed, 0 if it works
//	leasestorm_events_dropped_total               missed events, which the counters lack
//
//	leasestorm_polls_total{result}                polls: done, failed, timeout, interrupted (the lease or the instance ended it),
//	                                              fenced, panicked
//	leasestorm_poll_seconds                       duration of polls
//
//	leasestorm_election_leader                    1 while this member leads
//	leasestorm_election_health{state}             1 for the state of the member's Health, 0 for the others
//	leasestorm_election_blocked_seconds           as leasestorm_instance_blocked_seconds
//	leasestorm_election_warning{warning}          as leasestorm_instance_warning
//	leasestorm_election_leaderships_total         leaderships that this member acquired
//	leasestorm_election_leaderships_lost_total    leaderships of this member that ended, released ones too
//	leasestorm_election_attempts_failed_total     failed attempts
//	leasestorm_election_leader_changes_total      times another leader, or its next term, was seen
//	leasestorm_election_takeover_seconds          as leasestorm_lease_takeover_seconds, of leaderships
//	leasestorm_election_handover_seconds          as leasestorm_lease_handover_seconds
//	leasestorm_election_duplicates_total          times another process was seen with this member's ID
//
// The acquiring instance measures takeovers and handovers, on its own clock.
// Both leave out cases that it cannot know (lease.Event): a lease that it did
// not wait for, or that was free early.
//
// A takeover does not include the remaining life of the key when its owner
// died, at most a TTL. It includes the quarantine, if there was one. It is too
// long if the owner renewed after the last read of its key, and then died or
// released without a notice.
//
// A handover does not include the time that the last owner needed to end its
// work, which that owner counts as leasestorm_lease_yield_seconds, nor the
// delay of the message.
//
// A collector is for one instance, one poll function or one election. A process
// with several of a kind registers each with distinguishing labels:
// prometheus.WrapRegistererWith. The label instance belongs to the scraper;
// elections have the label election.
package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/lease"
)

// Source is a *lease.Manager or a *lease.Keeper. For a poll.SessionManager use
// its Leases.
type Source interface {
	Health() lease.Health
}

// counted has the methods of a Source that package lease shows to its siblings only.
type counted interface {
	Renewals() inner.Renewals
	SubscribeChanges(f func(lease.Event)) (cancel func())
}

// sharing is a Source that shares sessions: a *lease.Manager.
type sharing interface{ OwnedSessions() []string }

// Buckets of the histograms, in seconds. A free lease is acquired within milliseconds, or after a quarantine; users choose how long their
// work takes to end.
var (
	lags    = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	windows = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600}
)

// leases are the collectors of one source.
type leases struct {
	source Source

	acquisitions, failed, ended *prometheus.CounterVec
	yield, takeover, handover   prometheus.Histogram
	uncertain, dropped          prometheus.Counter

	mu      sync.Mutex
	terms   map[string]*term
	missing bool // events were dropped, so terms may have ended
}

type term struct {
	hold             interface{ Valid() bool } // a *lease.Lease
	doubted, yielded time.Time                 // beginning of an uncertainty and of a yield; zero: none
}

// Watch registers the collectors of a source and counts from now on. Call it
// before Start, or it misses terms. stop ends the counting and unregisters the
// collectors. Watch never delays the source, because a separate goroutine
// counts events. The error is the registry's: something with these names is
// registered already.
func Watch(r prometheus.Registerer, source Source) (stop func(), err error) {
	l := newLeases(source)
	if err := r.Register(l); err != nil {
		return nil, err
	}
	cancel := inner.Of(source).(counted).SubscribeChanges(l.count)
	return func() {
		cancel()
		r.Unregister(l)
	}, nil
}

func newLeases(source Source) *leases {
	l := &leases{
		source: source, terms: map[string]*term{},
		acquisitions: counters("lease_acquisitions_total", "Attempts to acquire a lease.", "result"),
		failed:       counters("lease_renewals_total", renewalsHelp, "result"),
		ended:        counters("lease_terms_ended_total", "Ended terms of leases.", "end", "cause"),
		yield:        histogram("lease_yield_seconds", "From the request to end the work under a lease until its release.", windows),
		takeover:     histogram("lease_takeover_seconds", "From the expiry of the last owner's key until the lease was acquired.", lags),
		handover:     histogram("lease_handover_seconds", "From the notice of a release until the lease was acquired.", lags),
		uncertain:    counter("lease_uncertain_seconds_total", "Time that a term was uncertain, from a failed renewal to a success or the end."),
		dropped:      counter("events_dropped_total", "Events that a slow listener missed."),
	}
	// Series that alerts read start at 0.
	l.acquisitions.WithLabelValues("acquired")
	for _, result := range []string{"failed", "no answer"} {
		l.failed.WithLabelValues(result)
	}
	for _, cause := range []string{"expired", "taken", "gone", "superseded", "wrong type", "stuck"} {
		l.ended.WithLabelValues("lost", cause)
	}
	return l
}

func (l *leases) count(e lease.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Dropped > 0 {
		l.dropped.Add(float64(e.Dropped))
		l.missing = true
	}
	t := l.terms[e.Name]
	switch e.Kind {
	case lease.EventAcquired:
		l.acquisitions.WithLabelValues("acquired").Inc()
		l.terms[e.Name] = &term{hold: e.Lease}
		l.vacant(e)
	case lease.EventAcquireFailed:
		l.acquisitions.WithLabelValues(e.Cause).Inc()
	case lease.EventUncertain:
		l.failed.WithLabelValues(e.Cause).Inc()
	case lease.EventLost:
		l.ended.WithLabelValues("lost", e.Cause).Inc()
	case lease.EventReleased:
		l.ended.WithLabelValues("released", e.Cause).Inc()
	}
	if t != nil {
		l.times(t, e)
	}
	if e.Kind == lease.EventLost || e.Kind == lease.EventReleased {
		delete(l.terms, e.Name)
	}
}

// vacant observes how long the lease had no owner before a term.
func (l *leases) vacant(e lease.Event) {
	switch {
	case e.VacantSince.IsZero():
	case e.GivenBack:
		l.handover.Observe(e.At.Sub(e.VacantSince).Seconds())
	default:
		l.takeover.Observe(e.At.Sub(e.VacantSince).Seconds())
	}
}

func (l *leases) times(t *term, e lease.Event) {
	switch e.Kind {
	case lease.EventRenewed:
		l.certain(t, e.At)
	case lease.EventUncertain:
		if t.doubted.IsZero() {
			t.doubted = e.At
		}
	case lease.EventYield:
		t.yielded = e.At
	case lease.EventKept:
		t.yielded = time.Time{}
	case lease.EventLost, lease.EventReleased:
		l.certain(t, e.At)
		if e.Kind == lease.EventReleased {
			since(l.yield, &t.yielded, e.At)
		}
	}
}

func (l *leases) certain(t *term, at time.Time) {
	if !t.doubted.IsZero() {
		l.uncertain.Add(max(0, at.Sub(t.doubted).Seconds()))
		t.doubted = time.Time{}
	}
}

func since(h prometheus.Histogram, from *time.Time, at time.Time) {
	if !from.IsZero() {
		h.Observe(at.Sub(*from).Seconds())
		*from = time.Time{}
	}
}

const (
	renewalsHelp = "Renewals of leases."
	warningHelp  = "1 for each warning about an instance that can acquire leases."
)

var (
	renewalsDesc  = describe("lease_renewals_total", renewalsHelp, "result")
	renewalDesc   = describe("lease_renewal_seconds", "From sending a renewal to its success.")
	marginDesc    = describe("lease_margin_seconds", "Time left in the trust window when a renewal succeeded.")
	heldDesc      = describe("leases_held", "Leases under which work may begin now.")
	uncertainDesc = describe("leases_uncertain", "Terms under which no work may begin until a renewal succeeds.")
	healthDesc    = describe("instance_health", "1 for the current state of the instance's Health.", "state")
	blockedDesc   = describe("instance_blocked_seconds", "Time until this instance can acquire leases again.")
	warningDesc   = describe("instance_warning", warningHelp, "warning")
	sessionsDesc  = describe("sessions", "Sessions that are known and shared.")
	skippedDesc   = describe("sessions_skipped", "Sessions that are left out because they are malformed.")
	unreadDesc    = describe("sessions_unread_seconds", "How long the sessions have been unreadable.")
)

func (l *leases) counted() []prometheus.Collector {
	return []prometheus.Collector{
		l.acquisitions, l.failed, l.ended, l.yield, l.takeover, l.handover, l.uncertain, l.dropped,
	}
}

// Describe implements prometheus.Collector.
func (l *leases) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range l.counted() {
		c.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{renewalDesc, marginDesc, heldDesc, uncertainDesc, healthDesc, blockedDesc, warningDesc,
		sessionsDesc, skippedDesc, unreadDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (l *leases) Collect(ch chan<- prometheus.Metric) {
	for _, c := range l.counted() {
		c.Collect(ch)
	}
	renewals := inner.Of(l.source).(counted).Renewals()
	ch <- prometheus.MustNewConstMetric(renewalsDesc, prometheus.CounterValue, float64(renewals.Took.Count()), "renewed")
	ch <- histogramOf(renewalDesc, renewals.Took)
	ch <- histogramOf(marginDesc, renewals.Margin)
	held, uncertain := l.standing()
	ch <- gauge(heldDesc, float64(held))
	ch <- gauge(uncertainDesc, float64(uncertain))
	h := l.source.Health()
	tellHealth(ch, healthDesc, blockedDesc, warningDesc, h)
	if _, shares := l.source.(sharing); shares {
		tellSessions(ch, h)
	}
}

func tellSessions(ch chan<- prometheus.Metric, h lease.Health) {
	unread := 0.0
	if !h.Unread.IsZero() {
		unread = time.Since(h.Unread).Seconds()
	}
	ch <- gauge(sessionsDesc, float64(h.Sessions))
	ch <- gauge(skippedDesc, float64(h.Skipped))
	ch <- gauge(unreadDesc, unread)
}

var healthStates = []string{
	lease.HealthOK, lease.HealthNoSessions, lease.HealthNotStarted, lease.HealthStopped, lease.HealthSilent, lease.HealthRefused,
	lease.HealthQuarantine, lease.HealthClock, lease.HealthSessionsRefused, lease.HealthSuperseded, lease.HealthBlocked,
	lease.HealthDisagrees,
}

// tellHealth exports the state, among all states, how much longer it blocks acquisitions, and all warnings.
func tellHealth(ch chan<- prometheus.Metric, state, barred, warning *prometheus.Desc, h lease.Health) {
	blocked := 0.0
	if h.State == lease.HealthQuarantine || h.State == lease.HealthClock {
		blocked = max(0, time.Until(h.Until).Seconds())
	}
	ch <- gauge(barred, blocked)
	flag := func(d *prometheus.Desc, on bool, name string) {
		value := 0.0
		if on {
			value = 1
		}
		ch <- gauge(d, value, name)
	}
	for _, s := range healthStates {
		flag(state, s == h.State, s)
	}
	flag(warning, h.Deaf, "notices-unheard")
	flag(warning, h.Surplus, "replicas-surplus")
	flag(warning, h.Withdrawn, "withdrawn")
}

// standing counts the valid and the uncertain terms. If events were missed, a term that is not valid may have ended, so it is dropped.
func (l *leases) standing() (held, uncertain int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, t := range l.terms {
		switch {
		case t.hold.Valid():
			held++
		case l.missing:
			delete(l.terms, name)
		default:
			uncertain++
		}
	}
	l.missing = false
	return held, uncertain
}

const namespace = "leasestorm"

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
}

// histogramOf exports a histogram that was counted elsewhere.
func histogramOf(d *prometheus.Desc, h inner.Histogram) prometheus.Metric {
	buckets, below := make(map[float64]uint64, len(h.Bounds)), uint64(0)
	for i, bound := range h.Bounds {
		if h.Counts != nil {
			below += h.Counts[i]
		}
		buckets[bound] = below
	}
	return prometheus.MustNewConstHistogram(d, h.Count(), h.Sum, buckets)
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}
