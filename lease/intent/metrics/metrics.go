// Package metrics exports counts of intents as Prometheus collectors. No other
// package of intents imports the Prometheus client.
//
//	intent_requests_total{outcome,leased}  requests to an API: accepted, replayed, stopped,
//	                                       conflict, or the cause of a refusal
//	intent_replays_total                   requests answered with an existing session
//	intent_starts_total{outcome}           of workers: started, rejected_busy,
//	                                       rejected_no_slot, failed, stopped
//
// Series that alerts read start at 0, to tell "nothing happened" from "nothing
// counted".
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasestorm/leasestorm/internal/intentnames"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// Metrics is an intent.Observer. Pass the same one to the API and the worker of
// a process.
type Metrics struct {
	intents *prometheus.CounterVec
	replays prometheus.Counter
	starts  *prometheus.CounterVec
	names   *intentnames.Names
}

var _ intent.Observer = (*Metrics)(nil)

// New makes the collectors and registers them. It returns the registry's error,
// such as that of a repeated registration.
func New(r prometheus.Registerer, names intent.Names) (*Metrics, error) {
	n := names.Table()
	m := &Metrics{
		names: n,
		intents: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: n.Intents, Help: "Requests to publish an intent.",
		}, []string{"outcome", n.Mode}),
		replays: prometheus.NewCounter(prometheus.CounterOpts{
			Name: n.Replays, Help: "Starts answered with an existing session.",
		}),
		starts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: n.Starts, Help: "Starts that a worker has run or ended.",
		}, []string{"outcome"}),
	}
	for _, c := range []prometheus.Collector{m.intents, m.replays, m.starts} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	for _, outcome := range []string{"accepted", "replayed", "stopped", "conflict"} {
		for _, mode := range n.Modes {
			m.intents.WithLabelValues(outcome, mode)
		}
	}
	for _, outcome := range []string{"started", "rejected_busy", n.RejectedNoSlot, "failed", "stopped"} {
		m.starts.WithLabelValues(outcome)
	}
	return m, nil
}

// Intent implements intent.Observer.
func (m *Metrics) Intent(outcome string, leased bool) {
	mode := m.names.Modes[0]
	if leased {
		mode = m.names.Modes[1]
	}
	m.intents.WithLabelValues(outcome, mode).Inc()
}

// Replay implements intent.Observer.
func (m *Metrics) Replay() { m.replays.Inc() }

// WorkerStart implements intent.Observer.
func (m *Metrics) WorkerStart(outcome string) {
	if outcome == intentnames.Neutral.RejectedNoSlot {
		outcome = m.names.RejectedNoSlot
	}
	m.starts.WithLabelValues(outcome).Inc()
}
