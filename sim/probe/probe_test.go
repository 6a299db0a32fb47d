package probe

import (
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/timing"
)

const ms = int64(time.Millisecond)

// good is the history of a node that breaks no rule, in order of time.
func good() []history.Event {
	at := func(t int64, k history.Kind, e history.Event) history.Event {
		e.T, e.Kind, e.Node = t*ms, k, "node-1"
		if e.Instance == "" {
			e.Instance = "a"
		}
		if k != history.Ready && k != history.Stopped && k != history.Exited {
			e.Session = "s"
		}
		return e
	}
	return []history.Event{
		at(0, history.Ready, history.Event{N: 1}),
		at(99, history.RedisGranted, history.Event{Until: 3099 * ms}),
		at(100, history.Acquired, history.Event{Fence: 5, Until: 3070 * ms}),
		at(200, history.PollStart, history.Event{Fence: 5}),
		at(201, history.Arrived, history.Event{Fence: 5}),
		at(210, history.PollEnd, history.Event{Fence: 5}),
		at(1100, history.RenewStart, history.Event{Fence: 5}),
		at(1101, history.RedisExtended, history.Event{Until: 4101 * ms}),
		at(1102, history.Renewed, history.Event{Fence: 5, Until: 4070 * ms}),
		at(2000, history.Released, history.Event{Fence: 5}),
		at(2001, history.RedisDeleted, history.Event{}),
		at(2010, history.Stopped, history.Event{}),
		at(2020, history.Exited, history.Event{Reason: "asked"}),
	}
}

// change returns another history of good, in which f replaces each event of the kind.
func change(k history.Kind, f func(history.Event) []history.Event) []history.Event {
	var out []history.Event
	for _, e := range good() {
		if e.Kind == k {
			out = append(out, f(e)...)
		} else {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b history.Event) int { return int(a.T - b.T) })
	return out
}

func without(kinds ...history.Kind) []history.Event {
	return slices.DeleteFunc(good(), func(e history.Event) bool { return slices.Contains(kinds, e.Kind) })
}

func set(k history.Kind, f func(*history.Event)) []history.Event {
	return change(k, func(e history.Event) []history.Event { f(&e); return []history.Event{e} })
}

func with(e history.Event) []history.Event { return append(good(), e) }

func seq(events []history.Event) iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Each case breaks one rule, or only just keeps it.
func TestRules(t *testing.T) {
	type outcomes map[string]check.Outcome // of rules that do not pass
	none := outcomes{}
	for name, c := range map[string]struct {
		events []history.Event
		want   outcomes
	}{
		"good":           {good(), none},
		"no version":     {set(history.Ready, func(e *history.Event) { e.N = 0 }), none},
		"strange word":   {with(history.Event{Kind: history.KindUnknown, Reason: "danced a waltz"}), none},
		"no line":        {with(history.Event{Kind: history.Malformed, Reason: "hello"}), outcomes{"lines": check.Fail}},
		"one ID for two": {with(history.Event{Kind: history.Ready, Node: "node-2", Instance: "a"}), outcomes{"instance": check.Fail, "stopped": ""}},
		"wall clock":     {with(history.Event{Kind: history.Malformed, Reason: wrongClock + " in ns: ready t=1"}), outcomes{"t": check.Fail}},
		"never acquired": {without(history.Acquired), outcomes{"acquired": check.Fail, "polls": ""}},
		"no until": {
			set(history.Renewed, func(e *history.Event) { e.Until = 0 }), outcomes{"until": check.Unknown},
		},
		"no until, asks": {
			change(history.Ready, func(e history.Event) []history.Event {
				e.Reason = history.Asks
				return []history.Event{e}
			}), none,
		},
		"until in the past":   {set(history.Renewed, func(e *history.Event) { e.Until = e.T }), outcomes{"until": check.Fail}},
		"until in seconds":    {set(history.Acquired, func(e *history.Event) { e.Until = -5 }), outcomes{"until": check.Fail}},
		"until as far as TTL": {set(history.Acquired, func(e *history.Event) { e.Until = e.T + 3100*ms }), none},
		"until beyond it":     {set(history.Acquired, func(e *history.Event) { e.Until = e.T + 3101*ms }), outcomes{"until": check.Fail}},
		"no fence":            {set(history.Acquired, func(e *history.Event) { e.Fence = 0 }), outcomes{"fence": check.Unknown}},
		"no renewStart":       {without(history.RenewStart), none},
		"renews in silence":   {without(history.Renewed), outcomes{"renewed": check.Fail}},
		"extended by a library": {
			slices.DeleteFunc(set(history.Acquired, func(e *history.Event) { e.Until = 0 }), func(e history.Event) bool {
				return e.Kind == history.Renewed
			}), outcomes{"until": check.Unknown, "renewed": check.Unknown},
		},
		"renews nothing":      {without(history.Renewed, history.RedisExtended), outcomes{"renewed": check.Unknown}},
		"no poll":             {without(history.Arrived), outcomes{"polls": check.Unknown}},
		"no fence in polls":   {set(history.Arrived, func(e *history.Event) { e.Fence = 0 }), outcomes{"X-Fence": check.Unknown}},
		"poll of another":     {set(history.Arrived, func(e *history.Event) { e.Instance = "b" }), outcomes{"polls": check.Fail}},
		"poll just released":  {set(history.Arrived, func(e *history.Event) { e.T = 2100 * ms }), none},
		"poll long released":  {set(history.Arrived, func(e *history.Event) { e.T = 2101 * ms }), outcomes{"polls": check.Fail}},
		"no pollStart":        {without(history.PollStart), outcomes{"pollStart": check.Unknown}},
		"no pollEnd":          {without(history.PollEnd), outcomes{"pollEnd": check.Unknown}},
		"releases in silence": {without(history.Released), outcomes{"released": check.Fail}},
		"never releases":      {without(history.Released, history.RedisDeleted), outcomes{"released": check.Unknown}},
		"releases too early":  {set(history.RedisDeleted, func(e *history.Event) { e.T = 1999 * ms }), outcomes{"released": check.Fail}},
		"releases at an estimated time": {
			change(history.RedisDeleted, func(e history.Event) []history.Event {
				beat := e
				e.T, beat.T, beat.Kind = 1999*ms, 1974*ms, history.RedisBeat
				return []history.Event{beat, e}
			}), none,
		},
		"lets it expire": {
			change(history.RedisDeleted, func(e history.Event) []history.Event { e.T = 4101 * ms; return []history.Event{e} }), none,
		},
		"no stopped":     {without(history.Stopped), outcomes{"stopped": check.Unknown}},
		"exits badly":    {set(history.Exited, func(e *history.Event) { e.N = 1 }), outcomes{"stopped": check.Fail}},
		"is killed":      {set(history.Exited, func(e *history.Event) { e.N = -1 }), outcomes{"stopped": check.Fail}},
		"ends by itself": {set(history.Exited, func(e *history.Event) { e.Reason = "" }), outcomes{"stopped": check.Fail}},
		"other keys": {
			without(history.RedisGranted, history.RedisExtended, history.RedisDeleted), outcomes{"owner in Redis": check.Unknown},
		},
		"random values": {
			set(history.RedisGranted, func(e *history.Event) { e.Instance = "x7f" }), outcomes{"owner in Redis": check.Unknown},
		},
		"values unread": {
			change(history.RedisGranted, func(e history.Event) []history.Event {
				e.Instance, e.Until = "", 0
				return []history.Event{e}
			}), outcomes{"owner in Redis": check.Unknown},
		},
		"expiry with the next command": {
			change(history.RedisGranted, func(e history.Event) []history.Event {
				end := e
				end.Kind, end.T, e.Until = history.RedisExtended, e.T+int64(slack), 0
				return []history.Event{e, end}
			}), none,
		},
		"expiry too late": {
			change(history.RedisGranted, func(e history.Event) []history.Event {
				end := e
				end.Kind, end.T, e.Until = history.RedisExtended, e.T+int64(slack)+1, 0
				return []history.Event{e, end}
			}), outcomes{"owner in Redis": check.Fail},
		},
		"no expiry": {set(history.RedisGranted, func(e *history.Event) { e.Until = 0 }), outcomes{"owner in Redis": check.Fail}},
	} {
		rules, err := Inspect(check.Params{Timings: timing.Timings{TTL: 3 * time.Second}, Tap: true}, seq(c.events), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := outcomes{}
		for _, r := range rules {
			if r.Verdict != check.Pass {
				got[r.Name] = r.Verdict
			}
		}
		for rule, want := range c.want {
			if want == "" { // follows from another rule
				delete(got, rule)
			} else if got[rule] != want {
				t.Errorf("%s: %s is %q, want %q", name, rule, got[rule], want)
			}
			delete(got, rule)
		}
		if len(got) > 0 {
			t.Errorf("%s: %v too", name, got)
		}
	}
}

// A missing message counts only if a criterion needs it. A broken rule always counts, also for the judge.
func TestDecide(t *testing.T) {
	missing := []Rule{{Name: "fence", Verdict: check.Unknown, Open: []string{"G3"}}, {Name: "polls", Verdict: check.Pass}}
	for _, c := range []struct {
		rules    []Rule
		criteria []string
		want     check.Outcome
	}{
		{missing, []string{"G1", "G2"}, check.Pass},
		{missing, []string{"G1", "G3"}, check.Unknown},
		{append(missing, Rule{Verdict: check.Fail}), []string{"G1", "G2"}, check.Fail},
	} {
		if got := Decide(c.rules, c.criteria); got != c.want {
			t.Errorf("%v for %v: %s, want %s", c.rules, c.criteria, got, c.want)
		}
	}
	rules, err := Inspect(check.Params{Tap: true, Timings: timing.Timings{TTL: 3 * time.Second}}, seq(good()), []check.Verdict{{ID: "G2", Verdict: check.Fail, Detail: "two; more"}})
	if err != nil || Decide(rules, Criteria()) != check.Fail || rules[len(rules)-1].Says != "broken without any fault: two" {
		t.Errorf("%v, %v", rules, err)
	}
}
