// Package metrics exports the counts of ADR-003 as Prometheus collectors. No
// other package of intents imports the Prometheus client.
//
//	v3_intents_total{outcome,mode}   requests to publish: accepted, replayed, stopped, conflict, or the cause of a refusal
//	v3_idempotent_replay_total       starts that returned an existing session
//	v3_worker_start_total{outcome}   processed starts: started, rejected_busy, rejected_no_tuner, failed, stopped
//
// Series that alerts read start at 0, to tell "nothing happened" from "nothing
// counted".
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// Metrics is an intent.Observer. Pass the same one to the API and the worker of
// a process.
type Metrics struct {
	intents *prometheus.CounterVec
	replays prometheus.Counter
	starts  *prometheus.CounterVec
}

var _ intent.Observer = (*Metrics)(nil)

// New makes the collectors and registers them. It returns the registry's error,
// such as that of a repeated registration.
func New(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		intents: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "v3_intents_total", Help: "Requests to publish an intent.",
		}, []string{"outcome", "mode"}),
		replays: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "v3_idempotent_replay_total", Help: "Starts answered with an existing session.",
		}),
		starts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "v3_worker_start_total", Help: "Starts that a worker has dealt with.",
		}, []string{"outcome"}),
	}
	for _, c := range []prometheus.Collector{m.intents, m.replays, m.starts} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	for _, outcome := range []string{"accepted", "replayed", "stopped", "conflict"} {
		for _, mode := range []string{"phase1", "phase2"} {
			m.intents.WithLabelValues(outcome, mode)
		}
	}
	for _, outcome := range []string{"started", "rejected_busy", "rejected_no_tuner", "failed", "stopped"} {
		m.starts.WithLabelValues(outcome)
	}
	return m, nil
}

// Intent implements intent.Observer.
func (m *Metrics) Intent(outcome, mode string) { m.intents.WithLabelValues(outcome, mode).Inc() }

// Replay implements intent.Observer.
func (m *Metrics) Replay() { m.replays.Inc() }

// WorkerStart implements intent.Observer.
func (m *Metrics) WorkerStart(outcome string) { m.starts.WithLabelValues(outcome).Inc() }
