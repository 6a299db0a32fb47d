package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/nodelogs"
)

// logged is a story for G12: two events and the node's log.
func logged(t *testing.T, killed bool, lines ...string) Verdict {
	t.Helper()
	return loggedAlso(t, killed, nil, lines...)
}

// loggedAlso is logged with more events between the two.
func loggedAlso(t *testing.T, killed bool, more []history.Event, lines ...string) Verdict {
	t.Helper()
	dir := t.TempDir()
	if lines != nil {
		text := ""
		for _, l := range lines {
			text += l + "\n"
		}
		if err := os.WriteFile(filepath.Join(dir, "node-1.log"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code := int64(0)
	if killed {
		code = -1
	}
	events := []history.Event{
		{T: 1, Kind: history.Ready, Node: "node-1", Instance: "i"},
		{T: 2, Kind: history.Acquired, Node: "node-1", Instance: "i", Session: "s", Fence: 7, Until: 9},
		{T: 3, Kind: history.Lost, Node: "node-1", Instance: "i", Session: "s", Fence: 7, Reason: "refused"},
		{T: 4, Kind: history.Exited, Node: "node-1", N: code},
		{T: 5, Kind: history.Phase, Reason: "end"},
	}
	events = slices.Insert(events, 2, more...)
	r, err := Judge(storyParams(), sequence(events), nodelogs.Read(dir, "."))
	if err != nil {
		t.Fatal(err)
	}
	v, _ := r.Verdict("G12")
	return v
}

func TestG12(t *testing.T) {
	const (
		acquired = `{"level":"info","ts":1.5,"msg":"Lease acquired","event":"acquired","instance":"i","endpoint":"s","fence":7}`
		lost     = `{"ts":1.6,"event":"lost","instance":"i","endpoint":"s","fence":7,"reason":"refused"}`
	)
	for _, c := range []struct {
		name   string
		killed bool
		lines  []string
		want   Outcome
		says   string
	}{
		{"logged", false, []string{acquired, lost}, Pass, "2 events"},
		{"other lines do not matter", false, []string{"panic: x", `{"event":"ready"}`, acquired, lost, `{"event":"lo`}, Pass, ""},
		{"one is missing", false, []string{acquired}, Fail, `"lost" 1 times and logged it 0 times`},
		{"one too many", false, []string{acquired, lost, lost}, Fail, "logged it 2 times"},
		{"missing, but killed in mid-sentence", true, []string{acquired}, Pass, ""},
		{"another fence", false, []string{strings.Replace(acquired, "7", "8", 1), lost}, Fail, "other endpoints or fences"},
		{"another endpoint", false, []string{strings.Replace(acquired, `"s"`, `"x"`, 1), lost}, Fail, "other endpoints or fences"},
		{"no fence", false, []string{strings.Replace(acquired, `,"fence":7`, "", 1), lost}, Fail, "lack one of"},
		{"no time", false, []string{acquired, strings.Replace(lost, `"ts":1.6,`, "", 1)}, Fail, "lack one of"},
		{"no reason", false, []string{acquired, strings.Replace(lost, `,"reason":"refused"`, "", 1)}, Fail, "gave a reason"},
		{"no log", false, nil, Unknown, "no log, an empty one, or one too large to be read, of node-1"},
		{"an empty log", false, []string{}, Unknown, "no log, an empty one, or one too large to be read, of node-1"},
		{"a log without entries", false, []string{"hello"}, Fail, `"acquired" 1 times and logged it 0 times`},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := logged(t, c.killed, c.lines...)
			says := fmt.Sprintf("%d events; %s", v.Exercised, v.Detail)
			if v.Verdict != c.want || !strings.Contains(says, c.says) {
				t.Errorf("%s: %s; want %s, %q", v.Verdict, says, c.want, c.says)
			}
		})
	}
}

// Only the last entries of a killed process may be missing.
func TestG12OfTheKilled(t *testing.T) {
	said := func(session string, fence int64) history.Event {
		return history.Event{T: 2, Kind: history.Acquired, Node: "node-1", Instance: "i", Session: session, Fence: fence, Until: 9}
	}
	entry := func(session string, fence int) string {
		return fmt.Sprintf(`{"ts":1.5,"event":"acquired","instance":"i","endpoint":%q,"fence":%d}`, session, fence)
	}
	more := []history.Event{said("x", 8), said("y", 9)}
	for _, c := range []struct {
		name  string
		lines []string
		want  Outcome
	}{
		{"all of them", []string{entry("s", 7), entry("x", 8), entry("y", 9)}, Pass},
		{"the last is missing", []string{entry("s", 7), entry("x", 8)}, Pass},
		{"in another order", []string{entry("x", 8), entry("s", 7)}, Pass},
		{"the first is missing", []string{entry("x", 8), entry("y", 9)}, Fail},
		{"one in the middle is missing", []string{entry("s", 7), entry("y", 9)}, Fail},
		{"another fence", []string{entry("s", 7), entry("x", 7)}, Fail},
		{"one was logged and not said any more", []string{entry("s", 7), entry("x", 8), entry("y", 9), entry("z", 10)}, Pass},
	} {
		if v := loggedAlso(t, true, more, c.lines...); v.Verdict != c.want {
			t.Errorf("%s: %s: %s; want %s", c.name, v.Verdict, v.Detail, c.want)
		}
	}
}

// A failed acquisition has an entry too (FR-019), if the node reports that event at all.
func TestG12OfFailedAcquisitions(t *testing.T) {
	const (
		acquired = `{"ts":1.5,"event":"acquired","instance":"i","endpoint":"s","fence":7}`
		lost     = `{"ts":1.6,"event":"lost","instance":"i","endpoint":"s","fence":7,"reason":"refused"}`
		failed   = `{"ts":1.6,"event":"acquireFailed","instance":"i","endpoint":"x","reason":"held","owner":"j"}`
	)
	failure := history.Event{T: 2, Kind: history.AcquireFailed, Node: "node-1", Instance: "i", Session: "x", Reason: "held"}
	for _, c := range []struct {
		name     string
		killed   bool
		reported int
		lines    []string
		want     Outcome
		says     string
	}{
		{"logged", false, 2, []string{acquired, failed, failed, lost}, Pass, "4 events"},
		{"one is missing", false, 2, []string{acquired, failed, lost}, Fail, `"acquireFailed" 2 times and logged it 1 times`},
		{"another endpoint", false, 1, []string{acquired, strings.Replace(failed, `"x"`, `"s"`, 1), lost}, Fail, "other endpoints"},
		{"no reason", false, 1, []string{acquired, strings.Replace(failed, `"reason":"held",`, "", 1), lost}, Fail, "gave a reason"},
		{"never said", false, 0, []string{acquired, failed, lost}, Pass, "2 events"},
		{"killed: one for each of s, x and none may be missing", true, killedSlack + 3, []string{acquired, lost}, Pass, ""},
		{"killed, and more are missing", true, killedSlack + 4, []string{acquired, lost}, Fail, "logged it 0 times"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := loggedAlso(t, c.killed, slices.Repeat([]history.Event{failure}, c.reported), c.lines...)
			says := fmt.Sprintf("%d events; %s", v.Exercised, v.Detail)
			if v.Verdict != c.want || !strings.Contains(says, c.says) {
				t.Errorf("%s: %s; want %s, %q", v.Verdict, says, c.want, c.says)
			}
		})
	}
}

// Entries added while the events are read are judged like those of files.
func TestG12OfAddedEntries(t *testing.T) {
	events := []history.Event{
		{T: 1, Kind: history.Ready, Node: "node-1", Instance: "i"},
		{T: 2, Kind: history.Acquired, Node: "node-1", Instance: "i", Session: "s", Fence: 7, Until: 9},
		{T: 4, Kind: history.Exited, Node: "node-1"},
		{T: 5, Kind: history.Phase, Reason: "end"},
	}
	entry := nodelogs.Entry{Event: "acquired", Instance: "i", Endpoint: "s", Fence: 7, HasFence: true, HasTime: true}
	other := entry
	other.Fence = 8
	bare := entry
	bare.HasFence = false
	for _, c := range []struct {
		entries []nodelogs.Entry
		want    Outcome
	}{
		{[]nodelogs.Entry{entry}, Pass},
		{nil, Fail},
		{[]nodelogs.Entry{entry, entry}, Fail},
		{[]nodelogs.Entry{other}, Fail},
		{[]nodelogs.Entry{bare}, Fail},
		{[]nodelogs.Entry{entry, {Event: "epoch", Instance: "i"}}, Pass},
	} {
		logs := nodelogs.New()
		r, err := Judge(storyParams(), func(yield func(history.Event, error) bool) {
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
			for i := range c.entries {
				logs.Add(&c.entries[i])
			}
		}, logs)
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := r.Verdict("G12"); v.Verdict != c.want {
			t.Errorf("%+v: %s: %s", c.entries, v.Verdict, v.Detail)
		}
	}
}

// TestJudgeUnfinished: an incomplete history is judged as far as it goes, passes nothing, and Judge returns the error.
func TestJudgeUnfinished(t *testing.T) {
	broken := errors.New("line 3 is cut off")
	events := []history.Event{
		{T: 1, Kind: history.Acquired, Node: "a", Instance: "a", Session: "s", Fence: 1, Until: 1000},
		{T: 500, Kind: history.Acquired, Node: "b", Instance: "b", Session: "s", Fence: 1, Until: 2000},
		{T: 1500, Kind: history.Note},
	}
	r, err := Judge(storyParams(), func(yield func(history.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
		yield(history.Event{}, broken)
	}, nil)
	if !errors.Is(err, broken) || r.Complete {
		t.Fatalf("error %v, complete %v", err, r.Complete)
	}
	for _, v := range r.Verdicts {
		want := Unknown
		if v.ID == "G1" || v.ID == "G3" {
			want = Fail
		}
		if v.Verdict != want {
			t.Errorf("%s %s, want %s: %s", v.ID, v.Verdict, want, v.Detail)
		}
	}
}

func TestJudgeUnordered(t *testing.T) {
	for _, times := range [][]int64{{5, 4}, {-1, 0}, {math.MinInt64, 0}} { // no event is before the start of a run
		_, err := Judge(storyParams(), sequence([]history.Event{{T: times[0], Kind: history.RedisBeatGone}, {T: times[1], Kind: history.Note}}), nil)
		if !errors.Is(err, ErrUnordered) {
			t.Errorf("%v: %v", times, err)
		}
	}
}

func TestJudgeNothing(t *testing.T) {
	r, err := Judge(Params{}, sequence(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Verdicts {
		if v.Verdict != Unknown {
			t.Errorf("%s %s of nothing", v.ID, v.Verdict)
		}
	}
}

// TestJudgeAnything: no history makes the judge panic, and equal histories have equal verdicts.
func TestJudgeAnything(t *testing.T) {
	name := rapid.SampledFrom([]string{"", "A", "B", "C"})
	kinds := rapid.SampledFrom([]string{"", "crash", "freeze", "blackhole", "terminate", "redis-wipe", "key-delete", "join", "crash-all"})
	rapid.Check(t, func(t *rapid.T) {
		var events []history.Event
		at := int64(0)
		for range rapid.IntRange(0, 120).Draw(t, "n") {
			at += rapid.Int64Range(0, int64(time.Second)).Draw(t, "step")
			e := history.Event{
				T: at, Kind: history.Kind(rapid.IntRange(0, 60).Draw(t, "kind")), Node: name.Draw(t, "node"),
				Instance: name.Draw(t, "instance"), Session: rapid.SampledFrom([]string{"", "s", "r"}).Draw(t, "session"),
				Fence: rapid.Int64Range(0, 4).Draw(t, "fence"), N: rapid.Int64Range(-2, 4).Draw(t, "number"),
				Until:  at + rapid.Int64Range(-at, int64(3*time.Second)).Draw(t, "until"),
				Reason: kinds.Draw(t, "reason"),
			}
			events = append(events, e)
		}
		p := storyParams()
		p.Tap = rapid.Bool().Draw(t, "tap")
		one, err := Judge(p, sequence(events), nil)
		if err != nil {
			t.Fatal(err)
		}
		two, err := Judge(p, sequence(events), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(one, two); diff != "" {
			t.Fatalf("judged twice:\n%s", diff)
		}
	})
}

func TestParamsJSON(t *testing.T) {
	p := storyParams()
	p.Speed, p.Tap, p.Scenario, p.Redis, p.Criteria = 10, true, "storm", "server", []string{"G1", "G2"}
	p.RenewTimeout = 333333333 * time.Nanosecond
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back Params
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, back); diff != "" {
		t.Errorf("%s:\n%s", text, diff)
	}
	for _, want := range []string{`"ttlMs":3000`, `"renewTimeoutMs":333.333333`, `"sessions":1`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	if err := json.Unmarshal([]byte(`{"ttlMs":1e300}`), &back); err == nil {
		t.Error("an absurd time was read")
	}
}
