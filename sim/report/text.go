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
	"github.com/leasestorm/leasestorm/sim/criteria"
	"github.com/leasestorm/leasestorm/sim/history"
)

// Table writes the verdicts as a table without colour, one line per guarantee. A star marks the guarantees that decide the run's verdict.
func (r Report) Table(w io.Writer) error {
	rows := [][]string{columns}
	for _, v := range r.Guarantees {
		rows = append(rows, r.row(v))
	}
	if err := writeRows(w, rows, rightAligned); err != nil {
		return err
	}
	if err := r.challenges(w); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, r.conclusion())
	return err
}

var (
	columns      = []string{"", "promise", "verdict", "value", "limit", "unit", "exercised", "excused"}
	rightAligned = []bool{false, false, false, true, true, false, true, true}
)

func (r Report) row(v check.Verdict) []string {
	id := v.ID
	if r.decides(v) {
		id += "*"
	}
	value, limit := Cells(v)
	return []string{
		id, check.Promise(v.ID), strings.ToUpper(string(v.Verdict)) + Stalled(v), value, limit, v.Unit, strconv.Itoa(v.Exercised),
		strconv.Itoa(v.Excused),
	}
}

func (r Report) decides(v check.Verdict) bool {
	return slices.Contains(criteria.Decides(r.Params()), v.ID) || v.Verdict == check.Fail && r.Asked(v.ID)
}

func (r Report) conclusion() string {
	if r.Engine == EngineLogs {
		return fmt.Sprintf("\nverdict: %s (* decides)\n", strings.ToUpper(string(r.Verdict)))
	}
	return fmt.Sprintf("\nverdict: %s%s (seed %d; * decides)\n", strings.ToUpper(string(r.Verdict)), Stalled(r.Guarantees...), r.Seed)
}

// Brief writes a summary for a person: the guarantees that the run tested, those that broke, and the next commands. Table and Failures
// write the rest.
func (r Report) Brief(w io.Writer, in string) error {
	rows, idle := [][]string{columns}, []string{}
	for _, v := range r.Guarantees {
		if v.Verdict == check.Unknown && !r.decides(v) {
			idle = append(idle, v.ID)
			continue
		}
		rows = append(rows, r.row(v))
	}
	if err := writeRows(w, rows, rightAligned); err != nil {
		return err
	}
	var b strings.Builder
	if len(idle) > 0 {
		fmt.Fprintf(&b, "not put to the test: %s\n", strings.Join(idle, ", "))
	}
	b.WriteString(r.conclusion())
	for _, v := range r.Guarantees {
		if v.Verdict == check.Fail && r.Asked(v.ID) {
			fmt.Fprintf(&b, "%s %s is BROKEN%s\n", v.ID, check.Promise(v.ID), measured(v))
		}
	}
	r.others(&b)
	b.WriteString("\n" + r.Commands(in))
	_, err := io.WriteString(w, b.String())
	return err
}

// Commands returns the commands to judge, replay and, after a failure, shrink the run, one per line.
func (r Report) Commands(in string) string {
	if r.Engine == EngineLogs {
		return "  judge it again:  simulate audit, with the same logs\n"
	}
	quoted := plain.Word(in)
	text := fmt.Sprintf("  judge it again:  simulate check %s\n  run it again:    simulate replay %s%s\n", quoted, quoted, r.Again())
	if r.Verdict == check.Fail && !r.Config.Foreign && !r.Smallest { // another program cannot run in virtual time
		text += fmt.Sprintf("  make it small:   simulate shrink %s%s\n", quoted, r.Smaller())
	}
	return text
}

// Stalled returns the table's addition to verdicts that a stall of the host affects; "" if none does.
func Stalled(of ...check.Verdict) string {
	if text := Stall(of...); text != "" {
		return ", the " + text
	}
	return ""
}

// Stall returns the longest stall of the host that affects the verdicts, as "host stalled 2.0 s"; "" if there is none.
func Stall(of ...check.Verdict) string {
	longest := int64(0)
	for _, v := range of {
		longest = max(longest, v.Stalled)
	}
	switch d := time.Duration(longest); {
	case d <= 0:
		return ""
	case d < 100*time.Millisecond:
		return fmt.Sprintf("host stalled %d ms", (d + time.Millisecond - 1).Milliseconds())
	default:
		return fmt.Sprintf("host stalled %.1f s", d.Seconds())
	}
}

// Cells returns a verdict's value and limit as tables show them. The value is "-" if the guarantee was not tested, or broke although the
// value is within its limit.
func Cells(v check.Verdict) (value, limit string) {
	value, limit = strconv.FormatInt(v.Value, 10), strconv.FormatInt(v.Limit, 10)
	if check.Least(v.ID) {
		limit = ">= " + limit
	}
	if v.Exercised == 0 && v.Verdict == check.Unknown || v.Verdict == check.Fail && !beyond(v) {
		value = "-"
	}
	return value, limit
}

func beyond(v check.Verdict) bool {
	if check.Least(v.ID) {
		return v.Value < v.Limit
	}
	return v.Value > v.Limit
}

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

// Failures explains a run that did not pass: each guarantee that broke, or that decides and stayed unknown. It adds the seed and the
// commands to run and judge the run again. in is the run's folder. For a passed run, it lists other broken guarantees.
func (r Report) Failures(w io.Writer, in string) error {
	var b strings.Builder
	if r.Verdict == check.Pass {
		if r.others(&b); b.Len() > 0 {
			b.WriteByte('\n')
		}
		_, err := io.WriteString(w, b.String())
		return err
	}
	for _, v := range r.Guarantees {
		if v.Verdict == check.Fail && r.Asked(v.ID) {
			fmt.Fprintf(&b, "\n%s %s is BROKEN%s\n", v.ID, check.Promise(v.ID), measured(v))
			writeWrapped(&b, v.Detail)
			writeEvents(&b, v.Evidence)
		}
	}
	r.others(&b)
	fmt.Fprintf(&b, "\nseed %d", r.Seed)
	if r.Commit != "" {
		fmt.Fprintf(&b, ", commit %s", plain.Text(r.Commit))
	}
	b.WriteByte('\n')
	b.WriteString(r.Commands(in))
	_, err := io.WriteString(w, b.String())
	return err
}

// Again holds what a replay needs besides the run's folder.
type Again struct {
	Flags string   // flags of simulate replay, each after a blank
	Lacks []string // flags that the user must set, because a saved run does not propose their values
	Was   []string // descriptions of the missing values
}

// Again returns what a replay of the run needs. For a saved run it describes the nodes' program but does not propose to start it, because
// the author of the folder chose it. It does not even show the URL of a server.
func (r Report) Again() (a Again) {
	if r.ReplayFlags != "" {
		return Again{Flags: r.ReplayFlags}
	}
	if kind := r.Redis.Chosen(); kind != "" {
		a.Flags += " --redis " + kind
	}
	if r.Launcher == LaunchContainers {
		a.Flags += " --launcher " + LaunchContainers
	}
	lacks := func(flag, was string) {
		if a.Lacks = append(a.Lacks, flag); was != "" {
			a.Was = append(a.Was, was)
		}
	}
	switch r.Redis.Kind {
	case "url":
		lacks("--redis", "its Redis was named by a URL")
	case "compose":
		lacks("--compose", "it stormed the fleet of a compose project")
	}
	kind, _ := NodeKind(r.NodeCmd)
	switch {
	case !r.Config.Foreign:
	case len(r.NodeCmd) == 0:
		lacks("--node-cmd", "")
	case kind == LeaseNode || kind == GoLease:
		lacks(NodeFlags[kind], "an adapter kept its leases: "+r.Nodes())
	default:
		lacks(NodeFlags[kind], "its nodes were: "+r.Nodes())
	}
	return a
}

// Smaller returns the flags that simulate shrink needs besides the folder, each after a blank. Only virtual runs have any.
func (r Report) Smaller() string {
	if r.Engine != "virtual" {
		return ""
	}
	return r.ReplayFlags
}

// String returns the part of the command after the folder.
func (a Again) String() string {
	text := a.Flags
	for _, flag := range a.Lacks {
		text += " " + flag + " …"
	}
	if len(a.Was) > 0 {
		text += "  (" + strings.Join(a.Was, "; ") + ")"
	}
	return text
}

// Chosen returns the value of --redis for the same kind of Redis on another machine. It returns "" for the default, and for kinds with an
// address or a name of their own.
func (r Redis) Chosen() string {
	if r.Kind == "container" || r.Kind == "embedded" {
		return r.Kind
	}
	return ""
}

// Nodes returns the command of the run's nodes for a reader, such as "BUG=x python3 node.py".
func (r Report) Nodes() string {
	var words []string
	_, command := NodeKind(r.NodeCmd)
	for _, w := range command {
		words = append(words, plain.Word(w))
	}
	return strings.Join(words, " ")
}

// Asked reports whether a break of the guarantee decides the run. Named criteria and safety guarantees always decide. Without named
// criteria, every guarantee decides.
func (r Report) Asked(id string) bool {
	p := r.Params()
	return len(p.Criteria) == 0 || slices.Contains(p.Criteria, id) || slices.Contains(check.Safety(p.System), id)
}

// others writes the deciding guarantees that stayed unknown, and one line with those that broke without deciding.
func (r Report) others(b *strings.Builder) {
	var broke []string
	for _, v := range r.Guarantees {
		switch {
		case v.Verdict == check.Fail && !r.Asked(v.ID):
			broke = append(broke, v.ID+" "+check.Promise(v.ID))
		case criteria.Thin(r.Params(), v):
			fmt.Fprintf(b, "\n%s %s held, but was exercised %s only, of at least %d\n", v.ID, check.Promise(v.ID), Times(v.Exercised),
				r.Config.Least)
		case v.Verdict == check.Unknown && slices.Contains(criteria.Decides(r.Params()), v.ID):
			fmt.Fprintf(b, "\n%s %s is UNKNOWN\n", v.ID, check.Promise(v.ID))
			writeWrapped(b, v.Detail)
		}
	}
	if len(broke) > 0 {
		fmt.Fprintf(b, "\nNot asked for, and broken: %s (see %s)\n", strings.Join(broke, ", "), FileName)
	}
}

// Times formats a number of times: "once", "7 times".
func Times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

// measured returns the verdict's value and limit, in brackets. It returns "" if the value is within the limit, because the explanation
// then names the other cause of the break.
func measured(v check.Verdict) string {
	if !beyond(v) {
		return ""
	}
	return fmt.Sprintf(" (%d %s, limit %d)", v.Value, v.Unit, v.Limit)
}

const textWidth = 110

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

// writeEvents writes events as a list with time, node and kind. It names an instance by its slot if one of the events shows the slot.
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

// Line formats one event for a reader: seconds since the run's start, node, kind, and the other fields.
func Line(e *history.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%11.5fs  %-8s %-13s", time.Duration(e.T).Seconds(), e.Node, e.Kind)
	instance := e.Instance
	if e.Node != "" {
		instance = "" // the slot names it
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
