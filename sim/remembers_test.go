package sim

import (
	"testing"
	"time"
)

// What a history may have is far more than honest nodes say, and no more than a disk and a memory bear. A storm of intents of 10 nodes and
// 100 services, as measured, has 63,000 events in 30 s, each of some 310 bytes.
func TestHistoriesHaveABound(t *testing.T) {
	for _, tt := range []struct {
		s           Scenario
		least, most int64 // MiB
	}{
		{Scenario{Nodes: 3, Sessions: 10, Duration: 30 * time.Second}, 256, 300},
		{Scenario{Nodes: 10, Sessions: 100, System: SystemIntents, Speed: 10, Duration: time.Hour}, 4 * 223, 2000}, // 6 minutes, at that speed,
		{Scenario{Nodes: 50, Sessions: 5000, Speed: 1, Duration: 5 * time.Minute}, 2 * 533, 100_000},
	} {
		c, err := tt.s.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		if got := c.historyMax() >> 20; got < tt.least || got > tt.most {
			t.Errorf("%d nodes, %d sessions: %d MiB, want %d to %d", c.Nodes, c.Sessions, got, tt.least, tt.most)
		}
	}
}
