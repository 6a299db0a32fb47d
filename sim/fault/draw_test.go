package fault

import (
	"testing"
	"time"
)

func TestPrint(t *testing.T) {
	for _, p := range []DrawParams{params(10, 10, 60*time.Second), params(10, 1, 5*time.Minute)} {
		for _, f := range Draw(7, p).Faults {
			t.Logf("%8v %-14s %-10s for %-8v ms %d lone %v", f.At, f.Kind, f.Target, f.For, f.Ms, f.Lone)
		}
		t.Log("storm", p.Storm)
	}
}

func params(nodes int, speed time.Duration, total time.Duration) DrawParams {
	ttl := 30 * time.Second / speed
	return DrawParams{Nodes: nodes, Sessions: 100, TTL: ttl, Renew: ttl / 3, Discovery: ttl / 3, Poll: ttl / 6,
		PollTimeout: ttl / 6, Storm: total - ttl*5/2 - time.Second}
}
