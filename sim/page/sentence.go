package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/report"
)

// plainly writes a length for a reader: "854 ms", "12.53 s", "10 min".
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

// when writes a moment of the run.
func when(ns int64) string { return fmt.Sprintf("%.3f s", time.Duration(ns).Seconds()) }

func named(id string) string { return strings.TrimSpace(id + " " + report.Promise(id)) }

// sentence says in one sentence what broke, or that nothing did.
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
	case len(broke) > 0 && (b.r.Verdict == check.Fail || len(b.m.Breaks) > 0):
		b.brokeSentence(broke)
	case b.r.Verdict == check.Pass:
		text := fmt.Sprintf("Nothing broke: %s under %s.", held(len(passed), len(unknown)), counted(len(b.m.Faults), "fault"))
		if near, ok := closest(passed); ok {
			text += fmt.Sprintf(" The closest call was %s: %d of %d %s (%d %%).", named(near.ID), near.Value, near.Limit, near.Unit,
				near.Value*100/near.Limit)
		}
		h.Sentence = []part{{Text: text}}
	default:
		b.unknownSentence(unknown)
	}
}

func held(passed, unknown int) string {
	if unknown == 0 {
		return fmt.Sprintf("all %d guarantees held", passed)
	}
	return fmt.Sprintf("%d of %d guarantees held (the others were not put to the test)", passed, passed+unknown)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// closest is the guarantee that came nearest to its limit, of those that are measured.
func closest(all []check.Verdict) (near check.Verdict, ok bool) {
	for _, v := range all {
		if v.Limit > 0 && len(v.Times)+len(v.Loads) > 0 && (!ok || v.Value*near.Limit > near.Value*v.Limit) {
			near, ok = v, true
		}
	}
	return near, ok
}

func (b *builder) unknownSentence(unknown []check.Verdict) {
	decides := check.Decides(b.p)
	var open []string
	why := ""
	for _, v := range unknown {
		if !slices.Contains(decides, v.ID) {
			continue
		}
		if open = append(open, named(v.ID)); why == "" {
			why = clause(v.Detail)
		}
	}
	text := "Undecided: the run is not complete."
	switch {
	case b.m.Head.Banner != "" && b.m.End > 0:
		text = fmt.Sprintf("Undecided: the run is not complete. Nothing had broken until %s.", when(b.m.End*perMs))
	case len(open) > 0:
		text = fmt.Sprintf("Undecided: %s %s not put to the test.", listed(open, 3), map[bool]string{true: "was", false: "were"}[len(open) == 1])
		if why != "" && !strings.HasPrefix(why, "nothing in this run") {
			text += " " + strings.TrimSuffix(strings.ToUpper(why[:1])+why[1:], ".") + "."
		}
	}
	b.m.Head.Sentence = []part{{Text: text}}
}

// clause is the first of an explanation's clauses.
func clause(detail string) string {
	first, _, _ := strings.Cut(detail, "; ")
	return shown(first)
}

func listed(all []string, most int) string {
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}

func (b *builder) brokeSentence(broke []check.Verdict) {
	h := &b.m.Head
	names := make([]string, len(broke))
	for i, v := range broke {
		names[i] = named(v.ID)
	}
	h.Sub = fmt.Sprintf("%d of %d guarantees broke (%s).", len(broke), len(b.r.Guarantees), listed(names, 6))
	if len(b.m.Breaks) == 0 {
		h.Sentence = []part{{named(broke[0].ID), "red"}, {Text: " broke: " + clause(broke[0].Detail) + "."}}
		return
	}
	first := b.m.Breaks[0]
	h.Sentence = first.Sentence
	for _, v := range broke {
		if v.ID == first.Guarantee {
			h.Sub += " " + b.others(v)
		}
	}
}

// others says how many breaks of the guarantee there are beside the one that is shown.
func (b *builder) others(v check.Verdict) string {
	n, sessions, longest := uint64(0), map[string]bool{}, int64(0)
	for _, k := range v.Kinds {
		n += k.Broken
	}
	for _, x := range v.Breaks {
		sessions[x.Session] = true
		longest = max(longest, x.To-x.From)
	}
	what := "break"
	if v.ID == "G1" || v.ID == "E1" {
		what = "overlap"
	}
	most := ""
	if int(n) > len(v.Breaks) {
		most = "at least "
	}
	if n <= 1 {
		return ""
	}
	text := fmt.Sprintf("%s: %s on %s%s of %d; this one began first", v.ID, counted(int(n), what), most, counted(len(sessions), "session"),
		max(len(b.m.Sessions), len(sessions)))
	if longest > 0 {
		text += ", the longest lasted " + plainly(max(longest, limitOf(v)))
	}
	return text + "."
}

// limitOf is the value of a guarantee that is measured in milliseconds of overlap.
func limitOf(v check.Verdict) int64 {
	if strings.HasPrefix(v.Unit, "ms of") {
		return v.Value * int64(time.Millisecond)
	}
	return 0
}
