package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
)

// finding is what was found about one guarantee.
type finding struct {
	id                 string
	exercised, excused int
	broke              int
	value              int64
	limit              int64          // the highest that was applied, where it depends on the lease
	doubts             map[string]int // reasons why a pass is not certain
	order              []string
	certain, absent    []check.Break // absent: missing lines could explain them
	broken             func(id, text string)
}

const breaksMax = 50

func (f *finding) doubt(why string) {
	if f.doubts[why]++; f.doubts[why] == 1 {
		f.order = append(f.order, why)
	}
}

// fail records a break that the log shows.
func (f *finding) fail(b check.Break, value int64, format string, args ...any) {
	f.record(&f.certain, b, value, format, args...)
}

// lacks records a break that follows from what the log does not say.
func (f *finding) lacks(b check.Break, value int64, format string, args ...any) {
	f.record(&f.absent, b, value, format, args...)
}

func (f *finding) record(to *[]check.Break, b check.Break, value int64, format string, args ...any) {
	f.value = max(f.value, value)
	f.broke++
	b.Text = fmt.Sprintf(format, args...)
	if f.broken != nil {
		f.broken(f.id, b.Text)
	}
	if len(*to) < breaksMax {
		*to = append(*to, b)
	}
}

// verdict returns the verdict, given why lines may be missing.
func (f *finding) verdict(unread []string) check.Verdict {
	v := check.Constants(f.id)
	v.Value, v.Exercised, v.Excused, v.Verdict = f.value, f.exercised, f.excused, check.Unknown
	v.Limit = max(v.Limit, f.limit)
	var say []string
	for _, why := range f.order {
		say = append(say, fmt.Sprintf("%s (%d)", why, f.doubts[why]))
	}
	breaks := f.certain
	if len(unread) == 0 {
		breaks = slices.Concat(breaks, f.absent)
		slices.SortStableFunc(breaks, func(a, b check.Break) int { return int(min(max(a.From-b.From, -1), 1)) })
	}
	switch {
	case len(breaks) > 0:
		v.Verdict, v.Breaks = check.Fail, breaks
		v.Breaks[0].First = true
		say = slices.Insert(say, 0, breaks[0].Text)
	case len(f.absent) > 0:
		say = slices.Insert(say, 0, "missing lines may explain: "+f.absent[0].Text)
	case len(f.order) > 0:
	case f.exercised == 0:
		say = append(say, "nothing in the log put it to the test")
	case len(unread) == 0:
		v.Verdict = check.Pass
	}
	v.Detail = strings.Join(append(say, unread...), "; ")
	return v
}

// during returns a break of a lease in a time, by terms.
func during(l *lease, from, to int64, terms ...*term) check.Break {
	b := check.Break{From: from, To: max(from, to)}
	if l != nil {
		b.Session = l.name
	}
	for _, t := range terms {
		b.Owners = append(b.Owners, check.Owner{Instance: t.inst.id, Fence: t.fence})
	}
	return b
}

func ms(ns int64) int64 { return (ns + 999_999) / 1_000_000 }

func stamp(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000Z") }
