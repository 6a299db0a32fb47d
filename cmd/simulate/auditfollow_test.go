package main

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/leasestorm/leasestorm/sim/audit"
	"github.com/leasestorm/leasestorm/sim/audit/logs"
)

// The counters have what the audit has counted.
func TestAuditCounters(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	a, err := audit.New(audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &auditCounters{}
	if err := c.serve("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer c.close()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	log := `{"ts":"2026-01-01T00:00:00Z","event":"acquired","instance":"a","endpoint":"s","fence":2,"ttl":10000}
{"ts":"2026-01-01T00:00:20Z","event":"acquired","instance":"b","endpoint":"s","fence":2,"ttl":10000}
started
`
	if _, err := a.Read(logs.Input{Name: "log", Reader: strings.NewReader(log)}); err != nil {
		t.Fatal(err)
	}
	c.update(a)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := strings.TrimPrefix(f.GetName(), "leasestorm_audit_")
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			got[name] = m.Counter.GetValue()
		}
	}
	for name, want := range map[string]float64{
		"lines_total": 3, "lines_unread_total": 1, "breaks_total G3": 1, "breaks_total G1": 0, "excused_total G5": 0,
	} {
		if n, ok := got[name]; !ok || n != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
