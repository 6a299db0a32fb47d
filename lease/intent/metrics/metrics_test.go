package metrics

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasestorm/leasestorm/lease/intent"
)

func TestNamesOfTheSpecification(t *testing.T) {
	r := prometheus.NewRegistry()
	m, err := New(r, intent.ADR003())
	if err != nil {
		t.Fatal(err)
	}
	var zeros []string
	m.Intent("conflict", false)
	m.Replay()
	m.WorkerStart("rejected_busy")
	m.WorkerStart("rejected_no_slot")
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
			series, n := fmt.Sprintf("%s{%s}", f.GetName(), strings.Join(labels, ",")), metric.GetCounter().GetValue()
			if n == 0 {
				zeros = append(zeros, series)
				continue
			}
			got = append(got, fmt.Sprint(series, " ", n))
		}
	}
	want := []string{
		"v3_idempotent_replay_total{} 1", `v3_intents_total{mode="phase2",outcome="conflict"} 1`,
		`v3_worker_start_total{outcome="rejected_busy"} 1`, `v3_worker_start_total{outcome="rejected_no_tuner"} 1`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if !slices.Contains(zeros, `v3_intents_total{mode="phase1",outcome="conflict"}`) ||
		!slices.Contains(zeros, `v3_worker_start_total{outcome="started"}`) {
		t.Errorf("at zero there are only %v", zeros)
	}
	if _, err := New(r, intent.ADR003()); err == nil {
		t.Error("registered twice without an error")
	}
}

func TestNames(t *testing.T) {
	r := prometheus.NewRegistry()
	m, err := New(r, intent.Names{})
	if err != nil {
		t.Fatal(err)
	}
	m.Intent("conflict", true)
	m.WorkerStart("rejected_no_slot")
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(families)
	for _, want := range []string{"intent_requests_total", `"leased"`, "intent_replays_total", "intent_starts_total", "rejected_no_slot"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not among %s", want, text)
		}
	}
	if strings.Contains(text, "tuner") || strings.Contains(text, "phase") {
		t.Error(text)
	}
}
