package metrics

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestNamesOfTheSpecification(t *testing.T) {
	r := prometheus.NewRegistry()
	m, err := New(r)
	if err != nil {
		t.Fatal(err)
	}
	m.Intent("conflict", "phase2")
	m.Replay()
	m.WorkerStart("rejected_busy")
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			var labels []string
			for _, l := range metric.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			got = append(got, fmt.Sprintf("%s{%s} %v", f.GetName(), strings.Join(labels, ","), metric.GetCounter().GetValue()))
		}
	}
	want := []string{
		"v3_idempotent_replay_total{} 1", `v3_intents_total{mode="phase2",outcome="conflict"} 1`,
		`v3_worker_start_total{outcome="rejected_busy"} 1`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if _, err := New(r); err == nil {
		t.Error("registered twice without an error")
	}
}
