package page

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/criteria"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/report"
)

// head makes the first section. failed is the error that ended the reading of the history.
func (b *builder) head(failed error) {
	h, p := &b.m.Head, b.p
	h.Verdict = cmp.Or(b.r.Verdict, check.Unknown)
	h.Title = shown(fmt.Sprintf("%s %s-%d", strings.ToUpper(string(h.Verdict)), p.Scenario, b.r.Seed))
	add := func(format string, args ...any) { h.Facts = append(h.Facts, shown(fmt.Sprintf(format, args...))) }
	add("%s", cmp.Or(p.Scenario, "storm"))
	add("seed %d", b.r.Seed)
	add("%s", plain.Count(p.Nodes, "node"))
	add("%s", plain.Count(p.Sessions, "session"))
	add("%s", plainly(int64(p.Duration)))
	add("TTL %s", plainly(int64(p.TTL)))
	add("%s engine", b.r.Engine)
	if p.Topology != "" { // as configured for the instances
		add("%s, Replicas %d", p.Topology, p.Replicas)
	}
	if b.r.Redis.Version != "" {
		add("Redis %s", b.r.Redis.Version)
	}
	if p.Foreign {
		add("foreign nodes")
	}
	b.commands()
	b.banner(failed)
	b.sentence()
	if stall := report.Stall(b.r.Guarantees...); stall != "" {
		h.Sub = strings.TrimSpace(h.Sub + " The " + stall + ".")
	}
}

func (b *builder) commands() {
	if b.r.Engine == report.EngineLogs {
		return
	}
	h, dir := &b.m.Head, plain.Word(filepath.Clean(b.in))
	add := func(what, command string) { h.Commands = append(h.Commands, [2]string{what, command}) }
	var muted []string
	add("judge again", "simulate check "+dir)
	if again := b.r.Again(); len(again.Lacks) > 0 { // without these flags it would be another run
		text := "run again: simulate replay " + dir + again.Flags + " with the run's own " + strings.Join(again.Lacks, " and ")
		if len(again.Was) > 0 {
			text += " (" + strings.Join(again.Was, "; ") + ")"
		}
		muted = append(muted, plain.Text(plain.Cut(text, 2*textMax)))
	} else {
		add("run again", "simulate replay "+dir+plain.Text(again.Flags))
	}
	switch {
	case b.r.Verdict != check.Fail:
	case b.p.Foreign:
		muted = append(muted, "make smaller: shrink accuses the library only, and these nodes are foreign")
	case len(b.m.Breaks) > 0: // of several broken guarantees, the one shown first
		add("make smaller", "simulate shrink "+dir+" --criteria "+b.m.Breaks[0].Guarantee+plain.Text(b.r.Smaller()))
	default:
		add("make smaller", "simulate shrink "+dir+plain.Text(b.r.Smaller()))
	}
	h.Muted = strings.Join(muted, "; ")
}

func (b *builder) banner(failed error) {
	at := plainly(int64(time.Duration(b.m.End) * time.Millisecond))
	var why string
	switch {
	case errors.Is(failed, history.ErrNotFound), errors.Is(failed, history.ErrEmpty):
		why = "There is no history: " + failed.Error()
	case failed != nil:
		why = "The history ends at " + at + " and is not whole: " + failed.Error()
	case b.p.Interrupted:
		why = "The run was interrupted at " + at + ": what follows is missing."
	case !b.c.ended:
		why = "The history has no end: it stops at " + at + "."
	default:
		return
	}
	b.m.Head.Banner = plain.Text(plain.Cut(why, 2*textMax))
}

// sentence writes the headline: the break, or that nothing broke.
func (b *builder) sentence() {
	h := &b.m.Head
	var broke, passed, unknown []check.Verdict
	for _, v := range b.r.Guarantees {
		switch v.Verdict {
		case check.Fail:
			broke = append(broke, v)
		case check.Pass:
			passed = append(passed, v)
		default:
			unknown = append(unknown, v)
		}
	}
	switch {
	case len(b.r.Guarantees) == 0:
		h.Sentence = []part{{Text: "Nothing was judged."}}
	case len(broke) > 0 && b.r.Verdict == check.Fail:
		b.brokeSentence(broke)
	case b.r.Verdict == check.Pass:
		nothing := "Nothing broke"
		if len(broke) > 0 {
			nothing = "Nothing that decides broke"
		}
		text := fmt.Sprintf("%s: %s under %s.", nothing, held(len(passed), len(unknown), len(broke)), plain.Count(len(b.m.Faults), "fault"))
		if near, ok := closest(passed); ok {
			text += fmt.Sprintf(" The closest call was %s: %d of %d %s (%d %%).", named(near.ID), near.Value, near.Limit, near.Unit,
				near.Value*100/near.Limit)
		}
		h.Sentence = []part{{Text: text}}
	default:
		b.unknownSentence(append(unknown, slices.DeleteFunc(passed, func(v check.Verdict) bool { return !criteria.Thin(b.p, v) })...))
	}
	if h.Sub == "" && len(broke) > 0 {
		h.Sub = "Not asked for, and broken: " + promises(broke) + "."
	}
}

func held(passed, unknown, broke int) string {
	var others []string
	if unknown > 0 {
		others = append(others, "not put to the test")
	}
	if broke > 0 {
		others = append(others, "not asked for")
	}
	if len(others) == 0 {
		return fmt.Sprintf("all %d guarantees held", passed)
	}
	return fmt.Sprintf("%d of %d guarantees held (the others were %s)", passed, passed+unknown+broke, strings.Join(others, ", or "))
}

func closest(all []check.Verdict) (near check.Verdict, ok bool) {
	for _, v := range all {
		if v.Limit > 0 && len(v.Times)+len(v.Loads) > 0 && (!ok || v.Value*near.Limit > near.Value*v.Limit) {
			near, ok = v, true
		}
	}
	return near, ok
}

func (b *builder) unknownSentence(unknown []check.Verdict) {
	decides := criteria.Decides(b.p)
	var open []string
	why, enough := "", ""
	for _, v := range unknown {
		if !slices.Contains(decides, v.ID) {
			continue
		}
		if open = append(open, named(v.ID)); why == "" {
			why = clause(v.Detail)
		}
		if v.Verdict == check.Pass && len(open) == 1 {
			enough = " enough"
			why = fmt.Sprintf("it was exercised %s, and %d is the least that was asked for", report.Times(v.Exercised), b.p.Least)
		}
	}
	text := "Undecided: the run is not complete."
	switch {
	case b.m.Head.Banner != "" && b.m.End > 0:
		text = fmt.Sprintf("Undecided: the run is not complete. Nothing had broken until %s.", when(b.m.End*perMs))
	case len(open) > 0:
		text = fmt.Sprintf("Undecided: %s %s not put to the test%s.", listed(open, 3),
			map[bool]string{true: "was", false: "were"}[len(open) == 1], enough)
		if why != "" && !strings.HasPrefix(why, "nothing in this run") {
			text += " " + strings.TrimSuffix(strings.ToUpper(why[:1])+why[1:], ".") + "."
		}
	}
	b.m.Head.Sentence = []part{{Text: text}}
}

func promises(of []check.Verdict) string {
	names := make([]string, len(of))
	for i, v := range of {
		names[i] = named(v.ID)
	}
	return listed(names, 6)
}

func (b *builder) brokeSentence(broke []check.Verdict) {
	h := &b.m.Head
	h.Sub = fmt.Sprintf("%d of %d guarantees broke (%s).", len(broke), len(b.r.Guarantees), promises(broke))
	if len(b.m.Breaks) == 0 {
		h.Sentence = []part{{named(broke[0].ID), "red"}, {Text: " broke: " + clause(broke[0].Detail) + "."}}
		return
	}
	first := b.m.Breaks[0]
	h.Sentence = first.Sentence
	for _, v := range broke {
		if v.ID == first.Guarantee {
			if text := worst(v, first); text != "" {
				h.Sentence = append(slices.Clip(first.Sentence), part{Text: text})
			}
			h.Sub += " " + b.others(v, first)
		}
	}
}

// overlaps returns the value of a guarantee in ns if it is measured in ms of overlap, else 0.
func overlaps(v check.Verdict) int64 {
	if strings.HasPrefix(v.Unit, "ms of") {
		return v.Value * perMs
	}
	return 0
}

// worst describes the table's value if it belongs to another break than the sentence.
func worst(v check.Verdict, shown drawing) string {
	value, told := overlaps(v), (shown.To-shown.From)*perUs
	if len(shown.Owners) == 1 && shown.Deadline != 0 {
		told = (shown.To - shown.Deadline) * perUs
	}
	if value < told+perMs { // the judge rounds up
		return ""
	}
	is := func(owners int, from func(x check.Break) int64) bool {
		return slices.ContainsFunc(v.Breaks, func(x check.Break) bool {
			return min(len(x.Owners), 2) == owners && x.To-from(x) > value-perMs
		})
	}
	switch {
	case is(2, func(x check.Break) int64 { return x.From }):
		return fmt.Sprintf(" This overlap began first; the longest lasted %d ms.", v.Value)
	case is(1, func(x check.Break) int64 { return x.Deadline }):
		return fmt.Sprintf(" The table's %d ms are how much longer one trusted its lease than Redis had granted it.", v.Value)
	}
	return fmt.Sprintf(" The worst of all was %d ms.", v.Value)
}

// others describes the breaks of the guarantee besides the one that is shown.
func (b *builder) others(v check.Verdict, shown drawing) string {
	n := uint64(0)
	for _, k := range v.Kinds {
		n += k.Broken
	}
	if n <= 1 {
		return ""
	}
	what, sessions, longest := extent(v, (shown.To-shown.From)*perUs)
	text := v.ID + ": " + plain.Count(int(n), what)
	if sessions > 0 {
		most := ""
		if int(n) > len(v.Breaks) {
			most = "at least "
		}
		text += fmt.Sprintf(" on %s%s of %d", most, plain.Count(sessions, "session"), max(len(b.m.Sessions), sessions))
	}
	if text += "; this one began first"; len(shown.Owners) > 1 && what == "break" && overlaps(v) > 0 {
		text += " of the overlaps"
	}
	if longest >= perMs && overlaps(v) == 0 { // otherwise the sentence mentions it
		text += ", the longest lasted " + plainly(longest)
	}
	if v.Unit == "commands" {
		text += fmt.Sprintf(", the most was %d of %d", v.Value, v.Limit)
	}
	return text + "."
}

// extent returns what the breaks of the guarantee are, the number of their sessions, and the length of the longest, at least the given one.
func extent(v check.Verdict, least int64) (what string, sessions int, longest int64) {
	what, longest = "break", least
	if v.ID == "G1" || v.ID == "E1" {
		what = "overlap"
	}
	on := map[string]bool{}
	for _, x := range v.Breaks {
		if x.Session != "" {
			on[x.Session] = true
		}
		if len(x.Owners) == 1 {
			what = "break"
			x.From = max(x.From, x.Deadline) // until the deadline, its trust was right
		}
		longest = max(longest, x.To-x.From)
	}
	return what, len(on), longest
}
