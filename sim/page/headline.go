package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/criteria"
	"github.com/leasestorm/leasestorm/sim/report"
)

// plainly formats a duration for a reader: "854 ms", "12.53 s", "10 min".
func plainly(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d < time.Second && d%time.Millisecond != 0 && d < 10*time.Millisecond:
		return fmt.Sprintf("%.2g ms", d.Seconds()*1000)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case d >= 10*time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%d min", int64(d.Minutes()))
	case d%time.Second == 0:
		return fmt.Sprintf("%d s", int64(d.Seconds()))
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func when(ns int64) string { return fmt.Sprintf("%.3f s", time.Duration(ns).Seconds()) }

func named(id string) string { return strings.TrimSpace(id + " " + check.Promise(id)) }

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

func clause(detail string) string {
	first, _, _ := strings.Cut(detail, "; ")
	return timed(shown(first))
}

func promises(of []check.Verdict) string {
	names := make([]string, len(of))
	for i, v := range of {
		names[i] = named(v.ID)
	}
	return listed(names, 6)
}

func listed(all []string, most int) string {
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
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

func (b *builder) others(v check.Verdict, shown drawing) string {
	n, sessions, longest := uint64(0), map[string]bool{}, (shown.To-shown.From)*perUs
	what := "break"
	if v.ID == "G1" || v.ID == "E1" {
		what = "overlap"
	}
	for _, k := range v.Kinds {
		n += k.Broken
	}
	for _, x := range v.Breaks {
		if x.Session != "" {
			sessions[x.Session] = true
		}
		if len(x.Owners) == 1 {
			what = "break"
			x.From = max(x.From, x.Deadline) // until the deadline, its trust was right
		}
		longest = max(longest, x.To-x.From)
	}
	most := ""
	if int(n) > len(v.Breaks) {
		most = "at least "
	}
	if n <= 1 {
		return ""
	}
	text := v.ID + ": " + plain.Count(int(n), what)
	if len(sessions) > 0 {
		text += fmt.Sprintf(" on %s%s of %d", most, plain.Count(len(sessions), "session"), max(len(b.m.Sessions), len(sessions)))
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
