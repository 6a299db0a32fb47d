package real

import (
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/protocol"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

func TestStampsOfNodes(t *testing.T) {
	c := host.NewClock()
	start := host.Monotonic()
	e, ok := stamped(c, "node-1", 0, protocol.Message{Name: "acquired", Instance: "i", Session: "s", Fence: 2, T: start, Until: start + 100})
	if !ok || e.Kind != history.Acquired || e.Node != "node-1" || e.Until-e.T != 100 && e.T != 0 {
		t.Errorf("%+v, %v", e, ok)
	}
	if slack := c.Now() - e.T; slack < 0 || slack > int64(time.Minute) {
		t.Errorf("stamped %v before now", time.Duration(slack))
	}
	for name, stamp := range map[string]int64{
		"wall clock": time.Now().UnixNano(), "seconds": 12345, "future": start + int64(time.Hour), "negative": -5,
	} {
		before := c.Now()
		e, ok := stamped(c, "node-1", 0, protocol.Message{Name: "lost", T: stamp, Until: stamp})
		if ok || e.T < before || e.Until != 0 {
			t.Errorf("%s: accepted as %+v", name, e)
		}
	}
	at := c.FromMono(start)
	if e, ok := stamped(c, "node-1", at+2*stampSlack, protocol.Message{Name: "lost", T: start}); ok || e.T < at {
		t.Errorf("long before its process began: accepted as %+v", e)
	}
	if e, ok := stamped(c, "node-1", at+1, protocol.Message{Name: "lost", T: start}); !ok || e.T != at+1 {
		t.Errorf("by a clock that is coarse: %+v, %v, want it as its process began, at %d", e, ok, at+1)
	}
	if e, ok := stamped(c, "node-1", 0, protocol.Message{Name: "lost"}); !ok || e.T == 0 {
		t.Errorf("without a stamp: %+v, %v, want the time of reading", e, ok)
	}
	if e, _ := stamped(c, "node-1", 0, protocol.Message{Name: "ready", Reason: "at last", Protocol: 2, Asks: true}); e.N != 2 || e.Reason != history.Asks {
		t.Errorf("a node of version 2 that asks before each use: %+v", e)
	}
	if e, _ := stamped(c, "node-1", 0, protocol.Message{Name: "arrived", Reason: "r"}); e.Kind != history.KindUnknown || e.Reason != "arrived r" {
		t.Errorf("the target's own word from a node: %+v, want it kept as unknown", e)
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add([]byte(`{"event":"acquired","session":"s","instance":"i","fence":1,"t":5,"until":9}` + "\n"))
	f.Add([]byte("\xff\n{}\n{\"event\":\"x\",\"t\":-1}"))
	c := host.NewClock()
	f.Fuzz(func(t *testing.T, in []byte) {
		protocol.Read(strings.NewReader(string(in)), func(m protocol.Message) {
			if e, _ := stamped(c, "n", 0, m); e.T < 0 || e.T > c.Now() {
				t.Errorf("event %+v is outside of the run", e)
			}
		}, func(string) {})
	})
}
