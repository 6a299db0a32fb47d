package audit_test

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/cputime"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/audit"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// BenchmarkAudit judges a log of 250,000 lines on one core, and compares that with the time in which encoding/json decodes its lines.
func BenchmarkAudit(b *testing.B) {
	c, err := sim.Scenario{Engine: sim.EngineVirtual, Nodes: 10, Sessions: 1000, Seed: 1, Fixed: sim.Fixed{Duration: 45 * time.Minute}}.Resolve()
	if err != nil {
		b.Fatal(err)
	}
	_, in, err := play(b.Context(), c, fault.Plan{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	var texts [][]byte
	lines := 0
	for _, log := range in {
		text, _ := io.ReadAll(log)
		texts = append(texts, text)
		lines += bytes.Count(text, []byte("\n"))
	}
	if lines < 250_000 {
		b.Fatalf("the log has %d lines", lines)
	}
	n, clock := 0, cputime.OneCore(b)
	var judging, decoding time.Duration
	for b.Loop() {
		began := clock()
		a, err := audit.New(audit.Options{})
		if err != nil {
			b.Fatal(err)
		}
		for k, text := range texts {
			in[k].Reader = bytes.NewReader(text)
		}
		if _, err = a.Read(in...); err != nil || a.Counts().Lines != int64(lines) {
			b.Fatal(a.Counts(), err)
		}
		judged := clock()
		for _, text := range texts {
			for line := range bytes.Lines(text) {
				var all map[string]json.RawMessage
				if err := json.Unmarshal(line, &all); err != nil {
					b.Fatal(err)
				}
			}
		}
		judging, decoding, n = judging+judged-began, decoding+clock()-judged, n+lines
	}
	b.ReportMetric(float64(n)/judging.Seconds(), "lines/s")
	b.ReportMetric(float64(judging)/float64(decoding), "x-encoding/json")
}
