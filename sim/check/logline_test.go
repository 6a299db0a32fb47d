package check

import (
	"errors"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/history"
)

const flatLine = `{"level":"info","ts":"2024-01-01T00:00:00.02938102Z","msg":"Lease acquired","node":"node-1","event":"acquired",` +
	`"instance":"node-1-1704067200-f53c432c","endpoint":"3ef23113","fence":1704067200028974,"reason":"","owner":""}`

// What the short way reads, encoding/json reads alike; and it does read what the nodes write.
func FuzzLogLine(f *testing.F) {
	for _, line := range []string{
		flatLine, flatLine + "\n", " " + flatLine + "\r\n",
		`{"event":"lost","fence":7,"ts":1.5}`, `{"event":"lost","ts":15,"fence":"7"}`, `{"event":"lost","fence":007}`,
		`{"Event":"lost","event":"released"}`, `{"event":"released","EVENT":"lost"}`, `{"event":"lost","event":"released"}`,
		`{"event":5}`, `{"event":"lo\u0073t"}`, `{"event":"lost","reason":{"a":[1]}}`, `{"event":"lost","fence":-1}`,
		`{"event":"lost","fence":99999999999999999999}`, `{"event":"lost",}`, `{"event":"lost"} x`, `{"event":"lost"`, `{}`, `{"`,
		`{"event":"lost","fence":null,"instance":null}`, "{\"event\":\"l\u00f6st\"}", `{"event":"lost";"ts":1}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var short, long LogEntry
		if !NewLogs().flat(line, &short) {
			return
		}
		if !decode(line, &long) {
			t.Fatalf("%q is read as %+v, and is no JSON", line, short)
		}
		if short != long {
			t.Fatalf("%q is read as %+v, by encoding/json as %+v", line, short, long)
		}
	})
}

func TestNodesLogsAreReadTheShortWay(t *testing.T) {
	var e LogEntry
	if !NewLogs().flat([]byte(flatLine+"\n"), &e) {
		t.Fatalf("a line as nodes write it is left to encoding/json: %s", flatLine)
	}
	want := LogEntry{
		Event: "acquired", Instance: "node-1-1704067200-f53c432c", Endpoint: "3ef23113", Fence: 1704067200028974,
		HasFence: true, HasTime: true,
	}
	if e != want {
		t.Fatalf("read %+v, want %+v", e, want)
	}
}

// A history that breaks off says nothing of the entries that nodes logged after it.
func TestG12OfAHistoryWithoutAnEnd(t *testing.T) {
	events := []history.Event{
		{T: 1, Kind: history.Ready, Node: "node-1", Instance: "i"},
		{T: 2, Kind: history.Acquired, Node: "node-1", Instance: "i", Session: "s", Fence: 7, Until: 9},
	}
	logs := NewLogs()
	for fence := range int64(2 * killedSlack) {
		logs.Add(&LogEntry{Event: "acquired", Instance: "i", Endpoint: "s", Fence: 7 + fence, HasFence: true, HasTime: true})
	}
	for name, broken := range map[string]error{"ended": nil, "cut off": errors.New("line 3 is cut off")} {
		r, _ := Judge(storyParams(), func(yield func(history.Event, error) bool) {
			if yield(events[0], nil) && yield(events[1], nil) && broken != nil {
				yield(history.Event{}, broken)
			}
		}, logs)
		if v, _ := r.Verdict("G12"); v.Verdict != Unknown || !strings.Contains(v.Detail, "the history has no end") {
			t.Errorf("%s: %s: %s", name, v.Verdict, v.Detail)
		}
	}
	r, err := Judge(storyParams(), sequence(append(events, history.Event{T: 3, Kind: history.Phase, Reason: "end"})), logs)
	if v, _ := r.Verdict("G12"); err != nil || v.Verdict != Fail {
		t.Errorf("with an end: %s: %s, %v", v.Verdict, v.Detail, err)
	}
}
