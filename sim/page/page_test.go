package page

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/report"
	"github.com/leasestorm/leasestorm/sim/timing"
)

const (
	second   = int64(time.Second)
	lease1   = "11111111-2222-3333-4444-555555555555"
	hostile  = "</script><script>window.owned=1</script><img src=x onerror=window.owned=1>\x1b[31m\u202e"
	fenceOne = 1795560876069996
)

// params are those of a small run with a TTL of 3 s.
func params() check.Params {
	return check.Params{
		Nodes: 2, Sessions: 1, Duration: 20 * time.Second, Speed: 10,
		Timings: timing.Timings{
			TTL: 3 * time.Second, Renew: time.Second, RenewTimeout: 300 * time.Millisecond, Heartbeat: time.Second,
			Discovery: time.Second, Poll: 500 * time.Millisecond, PollTimeout: 500 * time.Millisecond,
		},
		Tap: true, Scenario: "test",
		Plan: fault.Plan{Version: fault.Version, Seed: 7, Faults: []fault.Fault{{
			At: 4 * time.Second, Kind: fault.BlackHole, Target: "node-1", For: 4 * time.Second,
		}}},
	}
}

// overlapped is a run in which node-1 trusts its lease after the end of the lease. until gives the ends of its windows, name the nodes' IDs
// and texts.
func overlapped(until func(end int64) int64, name string) []history.Event {
	a, z := "inst-1"+name, "inst-2"+name
	e := []history.Event{
		{Kind: history.SessionAdded, Session: lease1}, {Kind: history.Phase, Reason: "start"},
		{T: 1, Kind: history.Spawned, Node: "node-1", N: 1}, {T: 2, Kind: history.Ready, Node: "node-1", Instance: a},
		{T: 3, Kind: history.Spawned, Node: "node-2", N: 2}, {T: 4, Kind: history.Ready, Node: "node-2", Instance: z},
		{T: 5, Kind: history.Phase, Reason: "storm"}, {T: 6, Kind: history.Note, Node: "node-1", Reason: "note" + name},
		{T: second, Kind: history.RedisGranted, Instance: a, Session: lease1, Until: 4 * second},
		{T: second + 1, Kind: history.RedisFence, Session: lease1, Fence: fenceOne},
		{T: second + 2, Kind: history.Acquired, Node: "node-1", Instance: a, Session: lease1, Fence: fenceOne, Until: until(4 * second)},
		{T: 2 * second, Kind: history.RenewStart, Node: "node-1", Instance: a, Session: lease1, Fence: fenceOne},
		{T: 2*second + 1, Kind: history.RedisExtended, Instance: a, Session: lease1, Until: 5 * second},
		{T: 2*second + 2, Kind: history.Renewed, Node: "node-1", Instance: a, Session: lease1, Fence: fenceOne, Until: until(5 * second)},
		{T: 2*second + 3, Kind: history.Arrived, Instance: a, Session: lease1, Fence: fenceOne, N: 1},
		{T: 2*second + 4, Kind: history.Served, Instance: a, Session: lease1, N: 1},
		{T: 3 * second, Kind: history.FaultStart, N: 0, Reason: "blackhole", Node: "node-1"},
		{T: 4 * second, Kind: history.RenewStart, Node: "node-1", Instance: a, Session: lease1, Fence: fenceOne},
		{T: 5 * second, Kind: history.RedisDeleted, Session: lease1},
		{T: 5*second + 1, Kind: history.RedisGranted, Instance: z, Session: lease1, Until: 8 * second},
		{T: 5*second + 2, Kind: history.RedisFence, Session: lease1, Fence: fenceOne + 1},
		{T: 5*second + 3, Kind: history.Acquired, Node: "node-2", Instance: z, Session: lease1, Fence: fenceOne + 1, Until: 8 * second},
		{T: 6 * second, Kind: history.Rejected, Instance: a, Session: lease1, Fence: fenceOne, N: 2, Reason: "fence" + name},
		{T: 7 * second, Kind: history.Lost, Node: "node-1", Instance: a, Session: lease1, Fence: fenceOne, Reason: "not owner" + name},
		{T: 7*second + 1, Kind: history.FaultEnd, N: 0, Reason: "blackhole", Node: "node-1"},
		{T: 7*second + 2, Kind: history.Malformed, Node: "node-1", Reason: "line" + name},
		{T: 8 * second, Kind: history.Released, Node: "node-2", Instance: z, Session: lease1, Fence: fenceOne + 1},
		{T: 9 * second, Kind: history.Phase, Reason: "calm"}, {T: 19 * second, Kind: history.Phase, Reason: "end"},
	}
	return e
}

// saved writes the events into a folder and returns it with the judged report.
func saved(t testing.TB, p check.Params, events []history.Event) (string, report.Report) {
	t.Helper()
	dir := t.TempDir()
	rec := history.NewRecorder()
	for _, e := range events {
		rec.Add(e)
	}
	if err := rec.Save(filepath.Join(dir, history.FileName)); err != nil {
		t.Fatal(err)
	}
	return dir, judged(t, p, dir)
}

func judged(t testing.TB, p check.Params, dir string) report.Report {
	result, _ := check.Judge(p, history.Open(dir), nil)
	return report.New(report.Meta{Engine: "real", Redis: report.Redis{Kind: "server", Version: "7.0.15"}}, p, result)
}

func rendered(t testing.TB, dir string, r report.Report) []byte {
	t.Helper()
	text, err := compose(build(dir, r))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func noUntil(int64) int64 { return 0 }

func headline(m *model) string {
	var b strings.Builder
	for _, p := range m.Head.Sentence {
		b.WriteString(p.Text)
	}
	return b.String()
}

// The sentence names both nodes, the lease, the duration, the start, and the first cause that fits.
func TestSentenceSaysWhoWhichHowLongAndWhy(t *testing.T) {
	wiped := overlapped(func(end int64) int64 { return end }, "")
	for i := range wiped {
		switch e := &wiped[i]; {
		case e.Kind == history.RedisDeleted:
			*e = history.Event{T: 4*second + second/2, Kind: history.RedisFlushed}
		case e.T >= 5*second && e.T < 6*second:
			e.T -= 2 * second / 5
		case e.Kind == history.FaultStart:
			e.Reason, e.Node = "redis-flush", ""
		case e.Kind == history.FaultEnd:
			e.Reason, e.Node = "redis-flush", ""
		}
	}
	early := overlapped(func(end int64) int64 { return end }, "")
	for i := range early {
		if early[i].Kind == history.RedisDeleted {
			early[i].T = 4*second + 1
		}
		if i > 0 && early[i].T >= 5*second && early[i].T < 6*second {
			early[i].T -= second / 2
		}
	}
	for name, test := range map[string]struct {
		events []history.Event
		want   string
	}{
		"no deadline": {overlapped(noUntil, ""), "node-1 and node-2 both trusted the lease of session 11111111 for 2.00 s from 5.000 s. A blackhole had cut " +
			"node-1 off: its lease ended at Redis at 5.000 s, but node-1 had set itself no deadline (no “until”) and trusted on."},
		"late deadline": {overlapped(func(end int64) int64 { return end + 3*second }, ""), "node-1 and node-2 both trusted the lease of session 11111111 for " +
			"2.00 s from 5.000 s. A blackhole had cut node-1 off: node-1 trusted until 8.000 s, 3 s longer than Redis had granted it (until 5.000 s). The " +
			"table's 3000 ms are how much longer one trusted its lease than Redis had granted it."},
		"Redis forgot": {wiped, "node-1 and node-2 both trusted the lease of session 11111111 for 400 ms from 4.600 s. A redis-flush had erased the lease " +
			"that node-1 held, and node-2 did not wait one TTL (until 7.500 s) before it acquired."},
		"key deleted": {early, "node-1 and node-2 both trusted the lease of session 11111111 for 500 ms from 4.500 s. The key of node-1 was deleted at " +
			"4.000 s, 1 s before its end, and it is not known by whom."},
	} {
		t.Run(name, func(t *testing.T) {
			dir, r := saved(t, params(), test.events)
			m := build(dir, r)
			if got := headline(m); got != test.want {
				t.Errorf("it says\n%s\nnot\n%s", got, test.want)
			}
			if len(m.Breaks) == 0 || len(m.Breaks[0].Steps) < 3 || !m.Breaks[0].Watched {
				t.Errorf("the break cannot be drawn: %+v", m.Breaks)
			}
		})
	}
}

// crashed is a run whose first owner is killed at 3 s, and whose lease the other node takes over at the given time.
func crashed(taken int64) []history.Event {
	var out []history.Event
	for _, e := range overlapped(func(end int64) int64 { return end - second/2 }, "") {
		switch {
		case e.Kind == history.FaultStart:
			e.Reason = "crash"
			out = append(out, e, history.Event{T: e.T + 1, Kind: history.Exited, Node: "node-1", N: -1, Reason: "asked"})
			continue
		case e.T >= 5*second+1 && e.T < 6*second:
			e.T += taken - 5*second
			if e.Until != 0 {
				e.Until += taken - 5*second
			}
		case e.Kind == history.Phase && e.T > 5*second:
			e.T += 30 * second
		case e.Kind == history.FaultEnd:
			continue
		}
		if e.T < 3*second || e.Node != "node-1" && !strings.HasPrefix(e.Instance, "inst-1") && (e.T < 6*second || e.T >= taken) && e.Kind != history.Released {
			out = append(out, e)
		}
	}
	return out
}

// A lease that stays without an owner is described as such, and the figure shows when it was due.
func TestSentenceOfAFailoverThatIsLate(t *testing.T) {
	p := params()
	p.Plan.Faults = []fault.Fault{{At: 3 * time.Second, Kind: fault.Crash, Target: "node-1", For: 0}}
	dir, r := saved(t, p, crashed(12*second))
	m := build(dir, r)
	want := "Session 11111111 of node-1 had no owner for 9.00 s from 3.000 s, 5.75 s longer than allowed (G5 failover). " +
		"The last fault before it was crash on node-1, at 3.000 s. The last word about this lease until it was due was node-1’s renewed at " +
		"2.000 s. The next was node-2’s acquired at 12.000 s."
	at := slices.IndexFunc(m.Breaks, func(d drawing) bool { return d.Guarantee == "G5" })
	if at < 0 {
		t.Fatalf("G5 did not break: %+v", m.Breaks)
	}
	m.Head.Sentence = m.Breaks[at].Sentence
	if got := headline(m); got != want {
		t.Errorf("it says\n%s\nnot\n%s", got, want)
	}
	if us(6*second+second/4) != m.Breaks[at].Deadline {
		t.Errorf("the deadline is not where the failover was due: %+v", m.Breaks[at])
	}
}

// fallen is a run in which Redis loses its data and counts fences from one again.
func fallen() []history.Event {
	events := overlapped(func(end int64) int64 { return end - second/2 }, "")
	for i := range events {
		e := &events[i]
		if e.Kind == history.RedisDeleted {
			*e = history.Event{T: 5 * second, Kind: history.RedisFlushed}
		}
		if e.T > 5*second && e.Fence > fenceOne {
			e.Fence = 1
		}
	}
	return events
}

// An instant break has the judge's text, with a cause if a rule finds one, and the figure shows its fences.
func TestSentenceOfAFenceThatFell(t *testing.T) {
	dir, r := saved(t, params(), fallen())
	m := build(dir, r)
	at := slices.IndexFunc(m.Breaks, func(d drawing) bool { return d.Guarantee == "G3" })
	if at < 0 {
		t.Fatalf("G3 did not break: %+v", m.Breaks)
	}
	m.Head.Sentence = m.Breaks[at].Sentence
	got := headline(m)
	for _, want := range []string{"G3 fences rise broke: ", "fence of session 11111111 fell from 1795560876069996 to 1", "Redis lost its data, at 5.000 s."} {
		if !strings.Contains(got, want) {
			t.Errorf("it says\n%s\nwithout %q", got, want)
		}
	}
}

// tooLong returns the sentence of a single instance that trusted too long.
func tooLong(t *testing.T, events []history.Event) string {
	t.Helper()
	dir, r := saved(t, params(), events)
	m := build(dir, r)
	at := slices.IndexFunc(m.Breaks, func(d drawing) bool { return d.Guarantee == "G1" && len(d.Owners) == 1 })
	if at < 0 {
		t.Fatalf("nobody trusted for too long: %+v", m.Breaks)
	}
	m.Head.Sentence = m.Breaks[at].Sentence
	return headline(m)
}

// Trust that counts from the answer is described as such.
func TestSentenceOfATrustFromTheAnswer(t *testing.T) {
	events := overlapped(func(end int64) int64 { return end + second/10 }, "")
	for i := range events {
		if e := &events[i]; e.Kind == history.Renewed || e.Kind == history.Acquired && e.Node == "node-1" {
			e.T += second / 10
		}
	}
	slices.SortStableFunc(events, func(x, y history.Event) int { return cmp.Compare(x.T, y.T) })
	if got := tooLong(t, events); !strings.Contains(got, "node-1 counts its trust from the answer") {
		t.Errorf("it says\n%s", got)
	}
}

// A page is one file. It loads nothing and runs only its own script.
func TestPageStandsAlone(t *testing.T) {
	dir, r := saved(t, params(), overlapped(noUntil, hostile))
	text := rendered(t, dir, r)
	if found := regexp.MustCompile(`(?i)(src|href)="(?:[^d"]|d[^a])|https?://[^w]|@import|\bfetch\(|XMLHttp|innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(`).Find(text); found != nil {
		t.Errorf("the page has %q", found)
	}
	if bytes.Contains(text, []byte("<img")) || bytes.Count(text, []byte("<script")) != 2 {
		t.Error("what a node said is in the page as markup")
	}
	if !bytes.Contains(text, []byte("default-src 'none'")) {
		t.Error("no policy forbids what is not the page's own")
	}
}

// A node's text is no markup in a summary either, whatever precedes its special characters.
func TestWordsInASummaryAreNoMarkup(t *testing.T) {
	for said, want := range map[string]string{
		`a|b[c](d)*e*`:     `a\|b\[c](d)\*e\*`,
		`\[c](http://d)\|`: `\\\[c](http:&#8203;//d)\\\|`,
		// Nor does it notify anybody or make a link if the summary is pasted into an issue.
		`@octocat me@example.org`:       `@&#8203;octocat me@&#8203;example.org`,
		`see https://x.y and www.x.y`:   `see https:&#8203;//x.y and www&#8203;.x.y`,
		`fixes #12, a/b#3 and GH-4 &#1`: `fixes #&#8203;12, a/b#&#8203;3 and GH-&#8203;4 &amp;#&#8203;1`,
	} {
		if got := cell(said); got != want {
			t.Errorf("%s is written %s, want %s", said, got, want)
		}
	}
}

// A node's text is printable and bounded.
func TestWordsOfNodesArePrintable(t *testing.T) {
	events := overlapped(noUntil, hostile+strings.Repeat("x", 1000))
	for i := range events {
		events[i].Session = strings.Replace(events[i].Session, lease1, "session"+hostile, 1)
		events[i].Node = strings.Replace(events[i].Node, "node-2", "node-2"+hostile, 1)
		if events[i].Kind == history.FaultStart {
			events[i].Reason += hostile
		}
	}
	p := params()
	p.Scenario = "scenario" + hostile
	dir, r := saved(t, p, events)
	text := rendered(t, dir, r)
	data := string(unpacked(t, text))
	if !strings.Contains(data, "session\\u003c/script") {
		t.Error("the names did not reach the page's data")
	}
	var m model
	if err := json.Unmarshal([]byte(data), &m); err != nil {
		t.Fatal(err)
	}
	for _, s := range m.Strings {
		if len(s) > 2*textMax {
			t.Errorf("a text of %d bytes is kept", len(s))
		}
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			if v != plain.Text(v) {
				t.Errorf("the data holds %q", v)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	var all any
	if err := json.Unmarshal([]byte(data), &all); err != nil {
		t.Fatal(err)
	}
	walk(all)
	if _, err := Save(dir, r, false); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{SummaryName, JUnitName} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(text, "\x1b\u202e") {
			t.Errorf("%s holds a control character", name)
		}
	}
}

func unpacked(t testing.TB, page []byte) []byte {
	t.Helper()
	_, rest, _ := bytes.Cut(page, []byte(`type="application/octet-stream">`))
	packed, _, _ := bytes.Cut(rest, []byte("<"))
	zip, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(packed)))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(zip)
	if err != nil || !json.Valid(data) {
		t.Fatalf("the data is no JSON: %v", err)
	}
	return data
}

// A run without an end, without a history, or cut off within a line also has a page, which says what is missing.
func TestRunsThatAreNotWhole(t *testing.T) {
	whole := overlapped(noUntil, "")
	for name, test := range map[string]struct {
		events      []history.Event
		interrupted bool
		spoil       func(file string) error
		want        string
	}{
		"no end":      {events: whole[:len(whole)-2], want: "The history has no end: it stops at 8 s."},
		"interrupted": {events: whole[:len(whole)-2], interrupted: true, want: "The run was interrupted at 8 s: what follows is missing."},
		"missing":     {events: whole, spoil: os.Remove, want: "There is no history: history: no history file"},
		"empty":       {events: whole, spoil: func(file string) error { return os.Truncate(file, 0) }, want: "There is no history: history: file is empty"},
		"cut":         {events: whole, spoil: func(file string) error { return os.Truncate(file, 1000) }, want: "The history ends at 2 s and is not whole: history: file is cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			p := params()
			p.Interrupted = test.interrupted
			dir, r := saved(t, p, test.events)
			if test.spoil != nil {
				if err := test.spoil(filepath.Join(dir, history.FileName)); err != nil {
					t.Fatal(err)
				}
				r = judged(t, p, dir)
			}
			m := build(dir, r)
			if !strings.HasPrefix(m.Head.Banner, test.want) {
				t.Errorf("the banner is %q, not %q", m.Head.Banner, test.want)
			}
			if _, err := Save(dir, r, true); err != nil {
				t.Error(err)
			}
		})
	}
}

// A run of 100 nodes and 10 000 sessions is bounded, in its page and in memory.
func TestHugeRunIsSmall(t *testing.T) {
	p := params()
	p.Nodes, p.Sessions, p.TTL, p.Duration = 100, 10_000, 30*time.Second, 10*time.Minute
	dir := t.TempDir()
	rec := history.NewRecorder()
	for e := range hugeRun(p.Nodes, p.Sessions, 10) {
		rec.Add(e)
	}
	if err := rec.Save(filepath.Join(dir, history.FileName)); err != nil {
		t.Fatal(err)
	}
	text := rendered(t, dir, report.New(report.Meta{}, p, check.Result{}))
	if n := len(text); n > 5<<20 {
		t.Errorf("the page has %d bytes, at most 5 MB are allowed", n)
	}
	t.Logf("%d bytes", len(text))
}

// hugeRun moves every session to another node this many times in ten minutes.
func hugeRun(nodes, sessions, moves int) func(yield func(history.Event) bool) {
	return func(yield func(history.Event) bool) {
		for s := range sessions {
			if !yield(history.Event{Kind: history.SessionAdded, Session: fmt.Sprintf("%08x-0000-4000-8000-000000000000", s*2654435761%(1<<32))}) {
				return
			}
		}
		for move := range moves {
			for s := range sessions {
				node := (s*31 + move*17) % nodes
				e := history.Event{
					T: int64(move)*60*second + int64(s)*5_000_000, Kind: history.Acquired, Node: fmt.Sprintf("node-%d", node+1),
					Instance: fmt.Sprintf("node-%d-1", node+1), Session: fmt.Sprintf("%08x-0000-4000-8000-000000000000", s*2654435761%(1<<32)),
					Fence: 1795560876069996 + int64(move*sessions+s), Until: int64(move)*60*second + int64(s)*5_000_000 + 55*second - int64(s*7919%1000)*1_000_000,
				}
				if !yield(e) {
					return
				}
			}
		}
	}
}

func TestJUnitHasACaseAGuarantee(t *testing.T) {
	_, r := saved(t, params(), overlapped(noUntil, ""))
	text, err := junit(r)
	if err != nil {
		t.Fatal(err)
	}
	var s suite
	if err := xml.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	if s.Tests != len(r.Guarantees) || len(s.Cases) != s.Tests || s.Failures == 0 || s.Cases[0].Failure == nil {
		t.Errorf("%d cases of %d guarantees, %d failures: %s", len(s.Cases), len(r.Guarantees), s.Failures, text)
	}
	p := params()
	p.Criteria = []string{"G5"}
	dir, r := saved(t, p, nil)
	if text, _ = junit(r); !bytes.Contains(text, []byte(`errors="1"`)) {
		t.Errorf("%s: what decides and is unknown is an error: %s", dir, text)
	}
}
