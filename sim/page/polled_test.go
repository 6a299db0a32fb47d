package page

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/report"
)

// heard returns the sentence of the guarantee's first break, and its figure.
func heard(t *testing.T, p check.Params, events []history.Event, id string) (string, drawing) {
	t.Helper()
	slices.SortStableFunc(events, func(x, y history.Event) int { return cmp.Compare(x.T, y.T) })
	dir, r := saved(t, p, events)
	m := build(dir, r)
	at := slices.IndexFunc(m.Breaks, func(d drawing) bool { return d.Guarantee == id })
	if at < 0 {
		t.Fatalf("%s did not break: %+v", id, r.Guarantees)
	}
	m.Head.Sentence = m.Breaks[at].Sentence
	return headline(m), m.Breaks[at]
}

func says(t *testing.T, got string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(got, want) {
			t.Errorf("it says\n%s\nwithout %q", got, want)
		}
	}
}

// polledOn is a run in which node-1 reports its lease lost at 4.5 s, but begins polls until the given time.
func polledOn(last int64) []history.Event {
	var out []history.Event
	for _, e := range overlapped(func(end int64) int64 { return end - second/4 }, "") {
		if e.Kind == history.Rejected || e.Kind == history.RedisDeleted || e.Kind == history.Lost && e.Node == "node-1" {
			continue
		}
		out = append(out, e)
	}
	a := history.Event{Node: "node-1", Instance: "inst-1", Session: lease1, Fence: fenceOne}
	lost := a
	lost.T, lost.Kind, lost.Reason = 4*second+second/2, history.Lost, "expired"
	out = append(out, lost)
	n := int64(2)
	for at := 5*second + second/2; at <= last; at += second / 2 {
		n++
		begun, came, answered := a, a, a
		begun.T, begun.Kind, begun.N = at, history.PollStart, n
		came.T, came.Kind, came.N, came.Node = at+1, history.Arrived, n, ""
		answered.T, answered.Kind, answered.N, answered.Node = at+2, history.Served, n, ""
		out = append(out, begun, came, answered)
	}
	return out
}

// For polls without a lease, the page says which node polled, for how long, what it had reported, and who owned the lease by then.
func TestSentenceOfWhoPollsOn(t *testing.T) {
	got, d := heard(t, params(), polledOn(7*second+second/2), "G4")
	says(t, got, "node-1 polled session 11111111 for 3 s after it had said lost (expired) at 4.500 s (G4 fail-closed, 5 polls).",
		"Redis had granted it to node-2 at 5.000 s.")
	if len(d.Owners) == 0 || d.Owners[0].Name != "node-1" || d.Owners[0].Fence != fenceOne || d.To != us(7*second+second/2) {
		t.Errorf("it is drawn as of %+v to %d", d.Owners, d.To)
	}
	if len(d.Steps) < 4 || !slices.IsSortedFunc(d.Steps, func(x, y step) int { return cmp.Compare(x.At, y.At) }) {
		t.Errorf("its steps are %+v", d.Steps)
	}
}

// A single poll has no duration. The page gives the time since the report that forbade it, at least a millisecond.
func TestSentenceOfOnePollTooMany(t *testing.T) {
	got, _ := heard(t, params(), polledOn(5*second+second/2), "G4")
	says(t, got, "for 1 s after it had said lost (expired) at 4.500 s (G4 fail-closed, 1 poll).")
}

// If an instance puts back its earlier fence after Redis has lost it, the page says so.
func TestSentenceOfATermThatIsPutBack(t *testing.T) {
	late := overlapped(func(end int64) int64 { return end - second/2 }, "")
	var events []history.Event
	for _, e := range late {
		if e.Kind == history.RedisDeleted || e.Kind == history.Lost || e.T > 6*second && e.Kind != history.Phase && e.Kind != history.FaultEnd {
			continue
		}
		events = append(events, e)
	}
	a := history.Event{Instance: "inst-1", Session: lease1}
	granted, fence, again := a, a, a
	granted.T, granted.Kind, granted.Until = 7*second, history.RedisGranted, 10*second
	fence.T, fence.Kind, fence.Fence, fence.Instance = 7*second+1, history.RedisFence, fenceOne, ""
	again.T, again.Kind, again.Fence, again.Node, again.Until = 7*second+2, history.Acquired, fenceOne, "node-1", 9*second
	events = append(events, history.Event{T: 6*second + second/2, Kind: history.RedisFlushed}, granted, fence, again)
	got, _ := heard(t, params(), events, "G3")
	says(t, got, "Redis lost its data, at 6.500 s.",
		"What Redis set is the fence that node-1 had before: node-1 put a term back that was over since 4.500 s (its window closed).")
}

// A session that is polled after its removal broke for that reason, whatever the last fault was. There is no gap between polls.
func TestSentenceOfASessionThatWasRemoved(t *testing.T) {
	events := overlapped(func(end int64) int64 { return end - second/4 }, "")[:16]
	a := history.Event{Node: "node-1", Instance: "inst-1", Session: lease1, Fence: fenceOne}
	for at := 3 * second; at <= 15*second; at += second {
		asked, done, renewed, came, served := a, a, a, a, a
		asked.T, asked.Kind = at, history.RenewStart
		done.T, done.Kind, done.Until, done.Node, done.Fence = at+1, history.RedisExtended, at+3*second, "", 0
		renewed.T, renewed.Kind, renewed.Until = at+2, history.Renewed, at+3*second-second/4
		came.T, came.Kind, came.N, came.Node = at+3, history.Arrived, at/second, ""
		served.T, served.Kind, served.N, served.Node = at+4, history.Served, at/second, ""
		events = append(events, asked, done, renewed, came, served)
	}
	events = append(events,
		history.Event{T: 3*second + second/2, Kind: history.FaultStart, N: 0, Reason: "session-remove", Session: lease1},
		history.Event{T: 3*second + second/2 + 1, Kind: history.SessionRemoved, Session: lease1},
		history.Event{T: 16 * second, Kind: history.Released, Node: "node-1", Instance: "inst-1", Session: lease1, Fence: fenceOne},
		history.Event{T: 17 * second, Kind: history.Phase, Reason: "calm"}, history.Event{T: 19 * second, Kind: history.Phase, Reason: "end"})
	got, d := heard(t, params(), events, "G8")
	says(t, got, "It was taken away at 3.500 s, and node-1 kept its lease until 16.000 s (released).")
	if strings.Contains(got, "last fault") {
		t.Errorf("a fault is named although the cause is known: %s", got)
	}
	if !slices.ContainsFunc(d.Steps, func(s step) bool { return strings.HasPrefix(s.Text, "The session is removed") }) ||
		slices.ContainsFunc(d.Steps, func(s step) bool { return strings.Contains(s.Text, "gap") }) {
		t.Errorf("its steps are %+v", d.Steps)
	}
}

// No node reports the request of a first grant, so the page only says how long each owner counts.
func TestSentenceOfATrustWithoutItsRequest(t *testing.T) {
	events := overlapped(func(end int64) int64 { return end + second/10 }, "")
	events = slices.DeleteFunc(events, func(e history.Event) bool {
		return e.Kind == history.RenewStart || e.Kind == history.Renewed || e.Kind == history.RedisExtended
	})
	got := tooLong(t, events)
	says(t, got, "From when Redis did it, at 1.000 s, it counts 3.10 s, 3.33 % more than the 3 s that Redis counts for a TTL of 3 s")
	if strings.Contains(got, "The last word") {
		t.Errorf("what is told of a lease without an owner is told of one that was trusted: %s", got)
	}
}

// Times in the judge's texts are those of the axes.
func TestTimesAreWrittenAsTheAxesAre(t *testing.T) {
	for text, want := range map[string]string{
		"at 5m9.39627s Redis":             "at 309.396 s Redis",
		"begun 24.65355s, arrived":        "begun 24.654 s, arrived",
		"in the 1.1s before 100ms; its":   "in the 1.1 s before 100 ms; its",
		"ends at 23h59m33.13394s;":        "ends at 86373.134 s;",
		"3597 ms after":                   "3597 ms after",
		"for 4s":                          "for 4 s",
		"node-1s 018cc265-7314-25ms-12s9": "node-1s 018cc265-7314-25ms-12s9",
		"fence 17s3":                      "fence 17s3",
	} {
		if got := timed(text); got != want {
			t.Errorf("%q is written %q, not %q", text, got, want)
		}
	}
}

// noisy is the report of a judge that found the same instance wrong twice, in an otherwise quiet run.
func noisy(t *testing.T, id string, texts ...string) (string, report.Report) {
	events := overlapped(func(end int64) int64 { return end - second }, "")
	for at := second; at <= 18*second; at += second {
		events = append(events, history.Event{T: at, Kind: history.Commands, Node: "node-1", N: 1000})
	}
	slices.SortStableFunc(events, func(x, y history.Event) int { return cmp.Compare(x.T, y.T) })
	dir, r := saved(t, params(), events)
	r.Verdict = check.Fail
	r.Guarantees = []check.Verdict{{ID: id, Verdict: check.Fail, Value: 1798, Limit: 85, Unit: "commands", Kinds: []check.KindCount{{Broken: uint64(len(texts))}}}}
	for _, text := range texts {
		r.Guarantees[0].Breaks = append(r.Guarantees[0].Breaks, check.Break{From: 9 * second, To: 9 * second, Text: text})
	}
	return dir, r
}

// A break without a lease names its node in its colour, the judge's other findings about it, and its worst value.
func TestSentenceOfWhatHasNoLease(t *testing.T) {
	dir, r := noisy(t, "G14", `node-1 (inst-1) said "lost" 0 times and logged it 26 times`, `node-2 (inst-2) said nothing`,
		`node-1 (inst-1) said "released" 26 times and logged it 0 times`)
	m := build(dir, r)
	says(t, headline(m), `node-1 said "lost" 0 times and logged it 26 times. node-1 said "released" 26 times and logged it 0 times.`)
	says(t, m.Head.Sub, "the most was 1798 of 85")
	if o := m.Breaks[0].Owners; len(o) != 1 || o[0].Name != "node-1" || o[0].Node != 0 {
		t.Errorf("it is of %+v", o)
	}
}

// Breaks without a lease have figures too: the commands of a node that was not quiet, a session of intents with its leases, and an instance
// that failed to take a lease over.
func TestBreaksWithoutALeaseAreDrawnLong(t *testing.T) {
	if testing.Short() {
		t.Skip("in a browser: make long")
	}
	b := browser(t)
	dir, r := noisy(t, "G14", "node-1 (inst-1) sent 1000 commands", "node-2 (inst-2) sent 90 commands")
	ctx := tab(b, t, dir, r, "")
	holds(ctx, t, "commands", `(() => { const s = document.querySelector("#break figure svg");
		return s.getAttribute("aria-label") === "node-1 sent at most 1000 commands a second" && s.querySelectorAll("rect").length > 15; })()`)
	holds(ctx, t, "the others", `document.querySelector("#break .also").textContent.includes("node-2 sent 90 commands") &&
		document.querySelector("#breaklist").textContent.includes("node-2 sent 90 commands")`)

	const id = "018cc265-7314-7695-a84c-ec574144db04"
	events := overlapped(func(end int64) int64 { return end - second }, "")
	events = append(events,
		history.Event{T: 2 * second, Kind: history.RedisState, Session: id, Reason: "RUNNING"},
		history.Event{T: 2*second + 5, Kind: history.Arrived, Instance: "inst-1", Session: lease1, Fence: fenceOne, N: 9, Reason: id},
		history.Event{T: 6 * second, Kind: history.RedisState, Session: id, Reason: "ENDED R_LEASE_LOST"})
	slices.SortStableFunc(events, func(x, y history.Event) int { return cmp.Compare(x.T, y.T) })
	dir, r = saved(t, params(), events)
	r.Verdict = check.Fail
	r.Guarantees = []check.Verdict{{ID: "I5", Verdict: check.Fail, Breaks: []check.Break{{From: 6 * second, To: 6 * second, Session: id}}}}
	ctx = tab(b, t, dir, r, "")
	holds(ctx, t, "what became of the session", `(() => { const s = document.querySelector("#break figure svg").textContent;
		return s.includes("ENDED R_LEASE_LOST") && s.includes("11111111") && s.includes("node-1"); })()`)

	events = append(crashed(12*second), history.Event{
		T: 6*second + second/2, Kind: history.AcquireFailed, Node: "node-2", Instance: "inst-2", Session: lease1, Reason: "wrong type",
	})
	slices.SortStableFunc(events, func(x, y history.Event) int { return cmp.Compare(x.T, y.T) })
	dir, r = saved(t, params(), events)
	ctx = tab(b, t, dir, r, "")
	do(ctx, t, chromedp.Evaluate(`document.querySelector('tr[data-id="G5"] button').click();
		document.querySelector('tr[data-id="G5"] + tr button').click()`, nil))
	holds(ctx, t, "who tried in vain", `document.querySelector("#break figure svg").textContent.includes("not granted: wrong type")`)
}

// A break outside the criteria does not head a page with another verdict. It follows below.
func TestWhatDecidesHeadsThePage(t *testing.T) {
	for verdict, want := range map[check.Outcome]string{
		check.Pass:    "Nothing that decides broke: 1 of 2 guarantees held (the others were not asked for) under 1 fault.",
		check.Unknown: "Undecided: G7 least movement was not put to the test.",
	} {
		p := params()
		p.Criteria = []string{"G7"}
		dir, r := saved(t, p, overlapped(noUntil, ""))
		of := check.Verdict{ID: "G7", Verdict: verdict}
		r.Verdict, r.Guarantees = verdict, []check.Verdict{of, {ID: "G8", Verdict: check.Fail, Breaks: []check.Break{{From: second, To: 2 * second, Session: lease1}}}}
		m := build(dir, r)
		if got := headline(m); got != want {
			t.Errorf("%s: it says\n%s\nnot\n%s", verdict, got, want)
		}
		if m.Head.Sub != "Not asked for, and broken: G8 no missed polls." || len(m.Breaks) != 1 {
			t.Errorf("%s: below it stands %q, and %d breaks", verdict, m.Head.Sub, len(m.Breaks))
		}
	}
}

// A session without any poll has no last poll, and no poll that ended the gap, unless one comes after the run's end.
func TestStepsOfASessionThatNobodyPolled(t *testing.T) {
	p := params()
	p.Nodes = 1
	events := overlapped(noUntil, "")[:8]
	events = append(events, history.Event{T: 9 * second, Kind: history.Phase, Reason: "calm"}, history.Event{T: 12 * second, Kind: history.Phase, Reason: "end"})
	late := history.Event{T: 12*second + 170*perMs, Kind: history.Arrived, Instance: "inst-1", Session: lease1, N: 1}
	for over, events := range map[string][]history.Event{
		"It was not over when the run ended.":                            events,
		"The judge measures until here. It is polled again at 12.170 s.": append(slices.Clip(events), late),
	} {
		got, d := heard(t, p, events, "G8")
		says(t, got, "No node said anything of its lease.")
		var steps []string
		for _, s := range d.Steps {
			steps = append(steps, s.Text)
		}
		if want := []string{"From here it was to be polled.", "By here it had to be polled again.", over}; !slices.Equal(steps, want) {
			t.Errorf("its steps are %q, not %q", steps, want)
		}
	}
}

// An owner keeps a requested lease until its process ends, it releases the lease, or the run ends.
func TestStepsOfALeaseThatIsKept(t *testing.T) {
	for over, events := range map[string][]history.Event{
		"Its owner’s process ends.": {{T: 9 * second, Kind: history.Exited, Node: "node-1", Reason: "killed"}},
		"It is released.":           {{T: 9 * second, Kind: history.Released, Node: "node-1", Instance: "inst-1", Session: lease1, Fence: fenceOne}},
	} {
		all := append(overlapped(noUntil, "")[:16], history.Event{T: 10 * second, Kind: history.Phase, Reason: "end"})
		all = append(all, events...)
		slices.SortStableFunc(all, func(x, y history.Event) int { return cmp.Compare(x.T, y.T) })
		dir, r := saved(t, params(), all)
		r.Guarantees = []check.Verdict{{ID: "G13", Verdict: check.Fail, Breaks: []check.Break{{
			From: 3 * second, To: 4 * second, Deadline: 4 * second, Session: lease1, Owners: []check.Owner{{Instance: "inst-1", Fence: fenceOne}},
		}}}}
		steps := build(dir, r).Breaks[0].Steps
		if last := steps[len(steps)-1]; last.Text != over || last.At != us(9*second) {
			t.Errorf("its last step is %+v, not %q", last, over)
		}
	}
}
