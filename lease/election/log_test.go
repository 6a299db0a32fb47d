package election

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// Only a transition is logged with two states, and nothing is logged that says nothing.
func TestLogOfElections(t *testing.T) {
	_, client := elected(t)
	core, log := observer.New(zapcore.DebugLevel)
	cfg := patient("a")
	cfg.Logger = zap.New(core)
	a := join(t, client, cfg)
	a.wait(EventLeadershipAcquired)
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, e := range log.All() {
		fields := e.ContextMap()
		kind, _ := fields["event"].(string)
		seen[kind] = true
		_, from := fields["from"]
		_, to := fields["to"]
		if changed := kind == EventStateChanged.String(); from != changed || to != changed {
			t.Errorf("%s: %v", e.Message, fields)
		}
		if e.Level >= zapcore.WarnLevel {
			t.Errorf("nothing went wrong, and the log warns: %s: %v", e.Message, fields)
		}
		for key, value := range fields {
			if value == "" || key == "fence" && value == int64(0) {
				t.Errorf("%s says nothing by %q: %v", e.Message, key, fields)
			}
		}
	}
	for _, k := range []EventKind{EventStateChanged, EventLeadershipAcquired, EventLeadershipLost} {
		if !seen[k.String()] {
			t.Errorf("no entry of %s in %v", k, seen)
		}
	}
}
