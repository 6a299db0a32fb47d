package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
)

// promises are the guarantees in a few words, for the table. docs/guarantees.md says them in full.
var promises = map[string]string{
	"G1": "one owner", "G2": "one poller", "G3": "fences rise", "G4": "fail-closed", "G5": "failover", "G6": "balance",
	"G7": "least movement", "G8": "no missed polls", "G9": "Redis fails", "G10": "only the owner", "G11": "scale",
	"G12": "told", "G13": "clean stop", "G14": "quiet",
	"E1": "one leader", "E2": "one writer", "E3": "fences rise", "E4": "failover", "E5": "says so", "E6": "events", "E7": "quiet",
	"I1": "one pipeline", "I2": "one session", "I3": "nothing is lost", "I4": "refused, no effect", "I5": "busy contract",
	"I6": "slots come back", "I7": "quiet",
}

// Promise says in a few words what the guarantee of that ID promises, "" of one that this version does not know.
func Promise(id string) string { return promises[id] }

// Table writes the verdicts as a table that is read without colour: one line a guarantee, those that decide the run's
// verdict marked with a star.
func (r Report) Table(w io.Writer) error {
	rows := [][]string{{"", "promise", "verdict", "value", "limit", "unit", "exercised", "excused"}}
	decides := check.Decides(r.Params())
	for _, v := range r.Guarantees {
		id := v.ID
		if slices.Contains(decides, v.ID) || v.Verdict == check.Fail && r.Asked(v.ID) {
			id += "*"
		}
		value, limit := strconv.FormatInt(v.Value, 10), strconv.FormatInt(v.Limit, 10)
		if v.Exercised == 0 && v.Verdict == check.Unknown {
			value = "-"
		}
		rows = append(rows, []string{
			id, promises[v.ID], strings.ToUpper(string(v.Verdict)), value, limit, v.Unit, strconv.Itoa(v.Exercised),
			strconv.Itoa(v.Excused),
		})
	}
	right := []bool{false, false, false, true, true, false, true, true}
	if err := writeRows(w, rows, right); err != nil {
		return err
	}
	if err := r.challenges(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nverdict: %s (seed %d; * decides)\n", strings.ToUpper(string(r.Verdict)), r.Seed)
	return err
}

// challenges writes what hit the owners of leases, if anything did.
func (r Report) challenges(w io.Writer) error {
	rows := [][]string{{"", "leases struck", "trust outlasted", "taken over"}}
	for _, v := range r.Guarantees {
		for _, c := range v.Challenges {
			rows = append(rows, []string{plain.Text(c.By), strconv.Itoa(c.Struck), strconv.Itoa(c.Outlasted), strconv.Itoa(c.Taken)})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return writeRows(w, rows, []bool{false, true, true, true})
}

func writeRows(w io.Writer, rows [][]string, right []bool) error {
	widths := make([]int, len(right))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-len(cell))
			if right[i] {
				b.WriteString(pad + cell)
			} else {
				b.WriteString(cell + pad)
			}
			b.WriteString("  ")
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// Failures writes what a reader needs when a run did not pass: for each guarantee that broke its explanation and the
// events around the first break; for each criterion that stayed unknown why; the seed; and the commands that run and judge
// it again. dir is the run's folder. Of a run that passed it says what broke without being asked for, if anything did.
func (r Report) Failures(w io.Writer, dir string) error {
	var b strings.Builder
	if r.Verdict == check.Pass {
		if r.others(&b); b.Len() > 0 {
			b.WriteByte('\n')
		}
		_, err := io.WriteString(w, b.String())
		return err
	}
	var explained []check.Verdict
	for _, v := range r.Guarantees {
		if v.Verdict == check.Fail && r.Asked(v.ID) {
			explained = append(explained, v)
		}
	}
	drawn := r.drawings(dir, explained)
	for _, v := range explained {
		fmt.Fprintf(&b, "\n%s %s is BROKEN%s\n", v.ID, promises[v.ID], measured(v))
		if drawing := drawn[v.ID]; drawing != "" {
			fmt.Fprintf(&b, "\n%s\n", drawing)
		}
		writeWrapped(&b, v.Detail)
		writeEvents(&b, v.Evidence)
	}
	r.others(&b)
	fmt.Fprintf(&b, "\nseed %d", r.Seed)
	if r.Commit != "" {
		fmt.Fprintf(&b, ", commit %s", plain.Text(r.Commit))
	}
	b.WriteByte('\n')
	quoted := plain.Word(dir)
	fmt.Fprintf(&b, "  judge it again:  simulate check %s\n  run it again:    simulate replay %s%s\n", quoted, quoted, r.ReplayFlags)
	if r.Verdict == check.Fail && !r.Config.Foreign { // a program of somebody's own cannot run in virtual time
		fmt.Fprintf(&b, "  make it small:   simulate shrink %s\n", quoted)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Asked reports whether a break of the guarantee decides: where none are named any does, and safety always.
func (r Report) Asked(id string) bool {
	p := r.Params()
	return len(p.Criteria) == 0 || slices.Contains(p.Criteria, id) || slices.Contains(check.Safety(p.System), id)
}

// others says in a line each what broke without being asked for, and what decides and stayed unknown.
func (r Report) others(b *strings.Builder) {
	for _, v := range r.Guarantees {
		switch {
		case v.Verdict == check.Fail && !r.Asked(v.ID):
			first, _, _ := strings.Cut(v.Detail, "; ")
			if rest := []rune(first); len(rest) > otherWidth {
				first = string(rest[:otherWidth]) + "…"
			}
			fmt.Fprintf(b, "\n%s %s, which was not asked for, broke%s: %s\n", v.ID, promises[v.ID], measured(v), plain.Text(first))
		case v.Verdict == check.Unknown && slices.Contains(check.Decides(r.Params()), v.ID):
			fmt.Fprintf(b, "\n%s %s is UNKNOWN\n", v.ID, promises[v.ID])
			writeWrapped(b, v.Detail)
		}
	}
}

// otherWidth is how much of the explanation a guarantee has that was not asked for.
const otherWidth = 140

// measured says what was found beside its limit. A value within its limit is of what held: something else broke the guarantee,
// which its explanation says.
func measured(v check.Verdict) string {
	if v.Value <= v.Limit {
		return ""
	}
	return fmt.Sprintf(" (%d %s, limit %d)", v.Value, v.Unit, v.Limit)
}

// textWidth is how wide a paragraph is.
const textWidth = 110

// writeWrapped writes a text as an indented paragraph.
func writeWrapped(b *strings.Builder, text string) {
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
			b.WriteString("  ")
			column = 2
		case column+1+len(word) > textWidth:
			b.WriteString("\n  ")
			column = 2
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	b.WriteByte('\n')
}

// writeEvents writes events as a story: when, who, what. What the target and Redis say of an instance is told by its slot,
// where a word of its own shows which that is.
func writeEvents(b *strings.Builder, events []history.Event) {
	slots := map[string]string{}
	for _, e := range events {
		if e.Node != "" && e.Instance != "" {
			slots[e.Instance] = e.Node
		}
	}
	for _, e := range events {
		if e.Node == "" && e.Instance != "" && slots[e.Instance] != "" {
			e.Node, e.Instance = slots[e.Instance], ""
		}
		fmt.Fprintf(b, "    %s\n", Line(&e))
	}
}

// Line writes one event for a reader: time in seconds since the run's start, node, word, and what it is about, on one line whatever
// a node calls itself.
func Line(e *history.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%11.5fs  %-8s %-13s", time.Duration(e.T).Seconds(), e.Node, e.Kind)
	instance := e.Instance
	if e.Node != "" {
		instance = "" // the slot says it; which process it is, the text does
	}
	for _, part := range []struct {
		name, value string
	}{{"session", e.Session}, {"instance", instance}, {"reason", e.Reason}} {
		if part.value != "" {
			fmt.Fprintf(&b, " %s=%s", part.name, part.value)
		}
	}
	if e.Fence != 0 {
		fmt.Fprintf(&b, " fence=%d", e.Fence)
	}
	if e.Until != 0 {
		fmt.Fprintf(&b, " until=%.5fs", time.Duration(e.Until).Seconds())
	}
	if e.N != 0 {
		fmt.Fprintf(&b, " n=%d", e.N)
	}
	return plain.Text(strings.TrimRight(b.String(), " "))
}
