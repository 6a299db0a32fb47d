package sim

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/files"
	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/history"
)

// diagram draws what happened to one session: time goes down, nodes, Redis and the target stand side by side.
type diagram struct {
	session string // "": all of them, each with its number
	near    int64  // from here on nothing is left out
	numbers map[string]int
	columns []string          // "node-1", …, "Redis", "target"
	slots   map[string]string // instance → node
	rows    [][]string        // time first
	last    map[lane]string   // what was said there last, to leave repetitions out
	ends    map[lane]int64    // when a trust window, or a key of Redis, ends if nothing extends it
}

// lane is a column's share of one session.
type lane struct{ column, session string }

// Rows and columns that a reader can follow.
const (
	rowsMax   = 90
	timeWidth = 11
	cellWidth = 30
	textWidth = 118
)

// The columns beside the nodes'.
const (
	inRedis  = "Redis"
	atTarget = "target"
)

// saveDiagram draws the session of the break, from the start until soon after the break was noticed.
func (s Shrunk) saveDiagram(in string) error {
	d := diagram{
		slots: map[string]string{}, numbers: map[string]int{}, last: map[lane]string{}, ends: map[lane]int64{},
		near: s.Verdict.At - int64(s.TTL)/10,
	}
	for _, e := range s.Verdict.Evidence {
		if d.session == "" {
			d.session = e.Session
		}
	}
	var events []history.Event
	for e, err := range history.Open(in) {
		if err != nil {
			return fmt.Errorf("%w: %w", ErrHarness, err)
		}
		if e.Kind == history.Spawned {
			d.slots[e.Instance] = e.Node
		}
		if e.T > s.Verdict.At+int64(s.TTL)/10 {
			break
		}
		if e.Session == d.session || e.Session == "" || d.session == "" {
			events = append(events, e)
		}
	}
	d.head(events)
	told := false
	for i := range events {
		if !told && events[i].T > s.Verdict.At {
			told = true
			d.broken(s)
		}
		if e := &events[i]; e.Kind == history.RenewStart && !answered(events[i:], int64(s.TTL)/20) {
			d.lapse(e.T)
			d.draw(e.T, lane{e.Node, e.Session}, "asks to renew: no answer")
		} else {
			d.event(e)
		}
	}
	if !told {
		d.broken(s)
	}
	text := fmt.Sprintf("%s breaks: %v, seed %d.\n%s\n\n%s", s.Guarantee, s.To, s.Seed, folded(s.Verdict.Detail), d.String())
	if err := files.Write(filepath.Join(in, DiagramFile), []byte(text)); err != nil {
		return fmt.Errorf("%w: %w", ErrHarness, err)
	}
	return nil
}

// answered reports whether the first event, a renewal that begins, is followed by its end within so long.
func answered(events []history.Event, within int64) bool {
	for i := range events {
		e := &events[i]
		switch {
		case e.T > events[0].T+within:
			return false
		case e.Node == events[0].Node && e.Session == events[0].Session && e.Kind > history.RenewStart && e.Kind <= history.Released:
			return true
		}
	}
	return true // the history ends before
}

func (d *diagram) broken(s Shrunk) {
	d.lapse(s.Verdict.At)
	d.rows = append(d.rows, []string{at(s.Verdict.At), fmt.Sprintf("=== %s is seen to be broken ===", s.Guarantee)})
}

// head finds the columns, and numbers the sessions if there is more than one to draw.
func (d *diagram) head(events []history.Event) {
	for _, e := range events {
		if e.Node != "" && !slices.Contains(d.columns, e.Node) {
			d.columns = append(d.columns, e.Node)
		}
		if _, known := d.numbers[e.Session]; !known && e.Session != "" {
			d.numbers[e.Session] = len(d.numbers) + 1
		}
	}
	slices.SortFunc(d.columns, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	d.columns = append(d.columns, inRedis, atTarget)
}

func (d *diagram) who(instance string) string {
	if slot := d.slots[instance]; slot != "" {
		return slot
	}
	return instance
}

func at(t int64) string { return fmt.Sprintf("%.3fs", time.Duration(t).Seconds()) }

// saying is what an event says in its column.
type saying struct {
	column, text string
	again        string // what it says again and again, left out while nothing else is said there; "": never
	ends         int64  // it lasts until then, -1: it is over; 0: it says nothing of that
	close        bool   // it is drawn near the break only
}

// event draws one event, if it tells something new.
func (d *diagram) event(e *history.Event) {
	if e.Kind == history.Phase {
		d.lapse(e.T)
		d.rows = append(d.rows, []string{at(e.T), "--- " + plain.Text(e.Reason)})
		return
	}
	s := d.ofNode(e)
	if s.text == "" {
		s = d.ofOthers(e)
	}
	if s.text == "" {
		return
	}
	d.lapse(e.T)
	l := lane{s.column, e.Session}
	switch {
	case s.ends > 0:
		d.ends[l] = s.ends
	case s.ends < 0:
		delete(d.ends, l)
	}
	switch {
	case s.close && e.T < d.near:
		return
	case s.again != "" && d.last[l] == s.again && e.T < d.near:
		return // the same as before; only what changes is drawn
	}
	if !s.close {
		d.last[l] = s.again
	}
	d.draw(e.T, l, s.text)
}

// ofNode is what a node says, or what befalls it.
func (d *diagram) ofNode(e *history.Event) saying {
	s := saying{column: e.Node}
	switch e.Kind {
	case history.Acquired:
		s.text, s.ends = "OWNS, trusts to "+at(e.Until), e.Until
		if e.Until == 0 {
			s.text = "OWNS, until it says otherwise"
		}
	case history.RenewStart:
		s.text, s.close = "asks to renew", true
	case history.Renewed:
		s.text, s.again, s.ends = fmt.Sprintf("renewed, trusts to %s", at(e.Until)), "renewed", e.Until
	case history.RenewFailed:
		s.text, s.ends = "IN DOUBT: "+e.Reason, -1
	case history.Lost, history.Released:
		s.text, s.ends = strings.TrimSuffix(e.Kind.String()+": "+e.Reason, ": "), -1
	case history.Exited, history.Stopped:
		for l := range d.ends {
			if l.column == e.Node {
				delete(d.ends, l)
			}
		}
		s.text = strings.TrimSuffix(e.Kind.String()+": "+e.Reason, ": ")
	case history.Spawned, history.Paused:
		s.text = e.Kind.String()
	case history.PollStart:
		s.text, s.close = "begins a poll", true
	case history.PollCancelled:
		s.text = strings.TrimSuffix("gives its poll up: "+e.Reason, ": ")
	case history.StateChanged:
		s.text = strings.Replace(e.Reason, " ", " → ", 1)
	case history.Leading:
		s.text = "follows " + d.who(e.Reason)
	}
	return s
}

// ofOthers is what Redis did, what the target saw, and what the plan hit.
func (d *diagram) ofOthers(e *history.Event) saying {
	s := saying{column: inRedis}
	switch e.Kind {
	case history.FaultStart, history.FaultEnd:
		if e.Node != "" {
			s.column = e.Node
		}
		if s.text = "** " + e.Reason; e.Kind == history.FaultEnd {
			s.text = "** end of " + e.Reason
		}
	case history.RedisGranted:
		s.text, s.ends = fmt.Sprintf("%s holds it to %s", d.who(e.Instance), at(e.Until)), e.Until
		if e.Instance == "" {
			s.text = "holds what is not known"
		}
	case history.RedisExtended:
		s.text, s.again, s.ends = "extended to "+at(e.Until), "extended", e.Until
	case history.RedisDeleted:
		s.text, s.ends = "free", -1
		if end := d.ends[lane{inRedis, e.Session}]; end > 0 && e.T >= end {
			s.text = "expired: free"
		}
	case history.RedisFence:
		s.text, s.close = fmt.Sprintf("fence …%06d", e.Fence%1_000_000), e.Fence == 0
	case history.RedisFlushed, history.RedisDown, history.RedisUp:
		s.text = strings.TrimSuffix(e.Kind.String()+": "+e.Reason, ": ")
	case history.Arrived:
		s.column, s.text, s.again = atTarget, "polled by "+d.who(e.Instance), "polled by "+e.Instance
	case history.Rejected:
		s.column, s.text = atTarget, "REFUSES "+d.who(e.Instance)
	}
	return s
}

// lapse draws the trust windows that have ended until then without a word.
func (d *diagram) lapse(until int64) {
	var over []lane
	for l, end := range d.ends {
		if l.column != inRedis && end <= until {
			over = append(over, l)
		}
	}
	slices.SortFunc(over, func(a, b lane) int {
		if d.ends[a] != d.ends[b] {
			return int(min(1, max(-1, d.ends[a]-d.ends[b])))
		}
		return strings.Compare(a.column+a.session, b.column+b.session)
	})
	for _, l := range over {
		d.draw(d.ends[l], l, "(its trust window ends)")
		d.last[l] = ""
		delete(d.ends, l)
	}
}

func (d *diagram) draw(t int64, l lane, text string) {
	if n := d.numbers[l.session]; d.session == "" && len(d.numbers) > 1 && n > 0 {
		text = fmt.Sprintf("%d: %s", n, text)
	}
	i := slices.Index(d.columns, l.column)
	if i < 0 {
		return
	}
	row := make([]string, len(d.columns)+1)
	row[0], row[i+1] = at(t), plain.Text(text)
	d.rows = append(d.rows, row)
}

// String returns the drawing: its beginning is left out where it is too long to follow.
func (d *diagram) String() string {
	var b strings.Builder
	switch {
	case d.session != "":
		fmt.Fprintf(&b, "Session %s. ", d.session)
	case len(d.numbers) > 1:
		fmt.Fprintf(&b, "%d sessions, numbered. ", len(d.numbers))
	}
	b.WriteString("Time goes down; repeated renewals and polls are left out, but not near the end.\n\n")
	d.row(&b, append([]string{"time"}, d.columns...))
	rows := d.rows
	if len(rows) > rowsMax {
		fmt.Fprintf(&b, "… %d rows before are left out\n", len(rows)-rowsMax)
		rows = rows[len(rows)-rowsMax:]
	}
	for _, row := range rows {
		d.row(&b, row)
	}
	return b.String()
}

func (d *diagram) row(b *strings.Builder, row []string) {
	var line strings.Builder
	for i, cell := range row {
		width := cellWidth
		if i == 0 {
			width = timeWidth
		}
		if r := []rune(cell); len(row) > 2 && len(r) > width-2 {
			cell = string(r[:width-3]) + "…"
		}
		fmt.Fprintf(&line, "%-*s", width, cell)
	}
	b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// folded breaks a long text at its blanks.
func folded(text string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > textWidth {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n")
}
