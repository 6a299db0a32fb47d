package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// diagram draws what happened to one session: time goes down, nodes, Redis and the target stand side by side.
type diagram struct {
	session string
	columns []string          // "node-1", …, "Redis", "target"
	slots   map[string]string // instance → node
	rows    [][]string        // time first
	last    map[string]string // what a column said last, to leave repetitions out
}

// Rows and columns that a reader can follow.
const (
	rowsMax   = 90
	cellWidth = 30
)

// saveDiagram draws the session of the break, from the start to its evidence.
func (s Shrunk) saveDiagram(dir string) error {
	d := diagram{slots: map[string]string{}, last: map[string]string{}}
	var until int64
	for _, e := range s.Verdict.Evidence {
		if d.session == "" {
			d.session = e.Session
		}
		until = max(until, e.T)
	}
	var events []history.Event
	for e, err := range history.Open(dir) {
		if err != nil {
			return fmt.Errorf("%w: %w", ErrHarness, err)
		}
		if e.Kind == history.Spawned {
			d.slots[e.Instance] = e.Node
		}
		if until > 0 && e.T > until+int64(s.TTL)/10 {
			break
		}
		if e.Session == d.session || e.Session == "" || d.session == "" {
			events = append(events, e)
		}
	}
	d.head(events)
	for i := range events {
		d.event(&events[i])
	}
	text := fmt.Sprintf("%s, seed %d: %s\n%s\n\n", s.Guarantee, s.Seed, s.To, s.Verdict.Detail) + d.String()
	if err := os.WriteFile(filepath.Join(dir, DiagramFile), []byte(text), 0o644); err != nil {
		return fmt.Errorf("%w: %w", ErrHarness, err)
	}
	return nil
}

// head finds the columns.
func (d *diagram) head(events []history.Event) {
	for _, e := range events {
		if e.Node != "" && !slices.Contains(d.columns, e.Node) {
			d.columns = append(d.columns, e.Node)
		}
	}
	slices.SortFunc(d.columns, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	d.columns = append(d.columns, "Redis", "target")
}

func (d *diagram) who(instance string) string {
	if slot := d.slots[instance]; slot != "" {
		return slot
	}
	return instance
}

// event draws one event, if it tells something new.
func (d *diagram) event(e *history.Event) {
	at := func(t int64) string { return fmt.Sprintf("%.3fs", time.Duration(t).Seconds()) }
	column, text, again := e.Node, "", ""
	switch e.Kind {
	case history.Acquired:
		text = fmt.Sprintf("OWNS, trusts to %s", at(e.Until))
	case history.Renewed:
		text, again = fmt.Sprintf("renewed, trusts to %s", at(e.Until)), "renewed"
	case history.RenewFailed:
		text = "IN DOUBT: " + e.Reason
	case history.Lost, history.Released, history.Exited, history.Spawned, history.Stopped, history.Paused:
		text = strings.TrimSuffix(e.Kind.String()+": "+e.Reason, ": ")
	case history.FaultStart, history.FaultEnd:
		if text = "** " + e.Reason; e.Kind == history.FaultEnd {
			text = "** end of " + e.Reason
		}
		if column == "" {
			column = "Redis"
		}
	case history.RedisGranted:
		column, text = "Redis", fmt.Sprintf("%s holds it to %s", d.who(e.Instance), at(e.Until))
		again = "holds " + e.Instance
	case history.RedisExtended:
		column, text, again = "Redis", "to "+at(e.Until), "extended"
	case history.RedisDeleted:
		column, text = "Redis", "free"
	case history.RedisFence:
		column, text = "Redis", fmt.Sprintf("fence …%06d", e.Fence%1_000_000)
	case history.RedisFlushed, history.RedisDown, history.RedisUp:
		column, text = "Redis", strings.TrimSuffix(e.Kind.String()+": "+e.Reason, ": ")
	case history.Arrived:
		column, text, again = "target", "polled by "+d.who(e.Instance), "polled by "+e.Instance
	case history.Rejected:
		column, text = "target", "REFUSED "+d.who(e.Instance)
	case history.Phase:
		d.rows = append(d.rows, []string{at(e.T), "--- " + e.Reason})
	}
	if text == "" {
		return
	}
	if again != "" && d.last[column] == again {
		return // the same as before; only what changes is drawn
	}
	d.last[column] = again
	row := make([]string, len(d.columns)+1)
	row[0] = at(e.T)
	if i := slices.Index(d.columns, column); i >= 0 {
		row[i+1] = text
		d.rows = append(d.rows, row)
	}
}

// String returns the drawing: its beginning is left out where it is too long to follow.
func (d *diagram) String() string {
	var b strings.Builder
	write := func(row []string) {
		var line strings.Builder
		for i, cell := range row {
			width := cellWidth
			if i == 0 {
				width = 11
			}
			if r := []rune(cell); len(r) > width-2 {
				cell = string(r[:width-3]) + "…"
			}
			fmt.Fprintf(&line, "%-*s", width, cell)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	if d.session != "" {
		fmt.Fprintf(&b, "session %s; repeated renewals and polls are left out\n\n", d.session)
	}
	write(append([]string{"time"}, d.columns...))
	rows := d.rows
	if len(rows) > rowsMax {
		fmt.Fprintf(&b, "… %d rows before are left out\n", len(rows)-rowsMax)
		rows = rows[len(rows)-rowsMax:]
	}
	for _, row := range rows {
		write(row)
	}
	return b.String()
}
