package real

import (
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

func TestReadEvents(t *testing.T) {
	long := strings.Repeat("x", 3*lineMax)
	in := `{"event":"ready","instance":"i"}` + "\n\n  \n" + // empty lines are no lines
		`{"event":"acquired","session":"s","fence":3,"t":5,"until":9,"more":[1]}` + "\r\n" +
		"not json\n" + `{"instance":"i"}` + "\n" + `{"event":7}` + "\n" + "[]\n\xff\xfe\n" + long + "\n" +
		`{"event":"danced"}` // without a line end
	var events, bad []string
	readEvents(iotest.HalfReader(strings.NewReader(in)), func(m message) {
		events = append(events, fmt.Sprintf("%s %d", m.Event, m.Fence))
	}, func(shown string) { bad = append(bad, shown) })
	if got := strings.Join(events, ", "); got != "ready 0, acquired 3, danced 0" {
		t.Errorf("events %q", got)
	}
	if len(bad) != 6 {
		t.Errorf("%d malformed lines, want 6: %q", len(bad), bad)
	}
	for _, b := range bad {
		if len(b) > malformedShown+100 {
			t.Errorf("%d bytes of a malformed line are kept", len(b))
		}
	}
}

// The error of an almost valid line says what is wrong with it, above all for numbers as other languages print them.
func TestWhyALineIsNone(t *testing.T) {
	for line, want := range map[string]string{
		`{"event":"ready","t":2.5}`:           "t must be a whole number, in digits only and not in quotes; got a number 2.5",
		`{"event":"ready","t":1e+12}`:         "t must be a whole number, in digits only and not in quotes; got a number 1e+12",
		`{"event":"ready","t":"5"}`:           "t must be a whole number, in digits only and not in quotes; got a string",
		`{"event":"acquired","fence":"7"}`:    "fence must be a whole number, in digits only and not in quotes; got a string",
		`{"event":"acquired","session":7}`:    "session must be a string; got a number",
		`{"event":"ready","asks":"true"}`:     "asks must be a bool; got a string",
		`[]`:                                  "no JSON object",
		`{"event":"ready"`:                    "no JSON: unexpected end of JSON input",
		`{"instance":"i"}`:                    "no event",
		`{"event":"ready","t":5,"new":[1.5]}`: "",
		`{"event":"ready","level":"high"}`:    "",
		`{"event":"acquired","level":"info","ts":"2026-11-29","msg":"Lease acquired"}`: "a log entry: write the log to standard error; a " +
			"launcher with a terminal of its own, such as script, merges the two",
	} {
		if _, why := parseEvent(line); why != want {
			t.Errorf("%s: %q, want %q", line, why, want)
		}
	}
}

func TestStampsOfNodes(t *testing.T) {
	c := host.NewClock()
	start := host.Monotonic()
	e, ok := stamped(c, "node-1", 0, message{Event: "acquired", Instance: "i", Session: "s", Fence: 2, T: start, Until: start + 100})
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
		e, ok := stamped(c, "node-1", 0, message{Event: "lost", T: stamp, Until: stamp})
		if ok || e.T < before || e.Until != 0 {
			t.Errorf("%s: accepted as %+v", name, e)
		}
	}
	at := c.FromMono(start)
	if e, ok := stamped(c, "node-1", at+2*stampSlack, message{Event: "lost", T: start}); ok || e.T < at {
		t.Errorf("long before its process began: accepted as %+v", e)
	}
	if e, ok := stamped(c, "node-1", at+1, message{Event: "lost", T: start}); !ok || e.T != at+1 {
		t.Errorf("by a clock that is coarse: %+v, %v, want it as its process began, at %d", e, ok, at+1)
	}
	if e, ok := stamped(c, "node-1", 0, message{Event: "lost"}); !ok || e.T == 0 {
		t.Errorf("without a stamp: %+v, %v, want the time of reading", e, ok)
	}
	if e, _ := stamped(c, "node-1", 0, message{Event: "ready", Reason: "at last", Protocol: 2, Asks: true}); e.N != 2 || e.Reason != history.Asks {
		t.Errorf("a node of version 2 that asks before each use: %+v", e)
	}
	if e, _ := stamped(c, "node-1", 0, message{Event: "arrived", Reason: "r"}); e.Kind != history.KindUnknown || e.Reason != "arrived r" {
		t.Errorf("the target's own word from a node: %+v, want it kept as unknown", e)
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add([]byte(`{"event":"acquired","session":"s","instance":"i","fence":1,"t":5,"until":9}` + "\n"))
	f.Add([]byte("\xff\n{}\n{\"event\":\"x\",\"t\":-1}"))
	c := host.NewClock()
	f.Fuzz(func(t *testing.T, in []byte) {
		readEvents(strings.NewReader(string(in)), func(m message) {
			if e, _ := stamped(c, "n", 0, m); e.T < 0 || e.T > c.Now() {
				t.Errorf("event %+v is outside of the run", e)
			}
		}, func(string) {})
	})
}
