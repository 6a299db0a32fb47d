// Package audit judges the structured logs of a fleet that nobody stormed: one owner (G1), rising fences (G3), fail-closed (G4), failover
// (G5), balance (G6), complete entries (G12) and clean stops (G13). It has less to go by than the judge of storms (sim/check), whose limits
// it uses: it knows no faults, and the clocks of hosts differ. So a guarantee fails only if no error of the clocks, no missing line and no
// fault that the log shows can explain what happened. What they may explain is unknown.
package audit

import (
	"bufio"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
)

// Options are the parameters of an audit.
type Options struct {
	Fields     string                // names of fields: "instance=host,ts=time"
	ClockError time.Duration         // largest error of a host's clock; default 50 ms
	Window     time.Duration         // by which the entries of a file may be out of order; default 2 s
	Params     check.Params          // limits; timings that are 0 follow from the TTL of the first term
	Broken     func(id, text string) // called for each break, at once
}

// Counts counts what was read.
type Counts struct {
	Lines, Entries           int64
	Plain, Damaged, Cut      int64 // lines that are no JSON: of others, of entries, cut off at the end of a file
	Bare                     int64 // entries that lack a field
	Duplicates, Late, Back   int64 // entries: logged twice, later than the window, with an earlier time than the one before
	Dropped, Clocks, Unnamed int64 // losses that the logs report; clocks that contradict their error; instances without a log
	Instances, Leases        int64
	Fleets                   int64
}

// Auditor judges entries as they come. It forgets terms that are over.
type Auditor struct {
	Options
	p      check.Params
	fields map[string]field
	margin int64
	counts Counts

	instances map[string]*instance
	leases    map[string]*lease
	epochs    map[string]*instance // an instance that knows it
	named     map[string]bool      // instances that others name and whose log is missing
	pruned    int64                // when ended instances were forgotten last
	seen      Counts               // of what was forgotten
	runs      map[string]int       // numbers of Redis' clocks, by the server's run
	now       int64
	timers    []timer
	flushing  bool // the log is over

	shares, weighed bool  // sessions are shared; the present rest is judged
	changed, weighs int64 // the last change; when to look at the shares again
	one             *instance

	owner, rise, closed, failover, balance, told, stop finding
	empty                                              []string // sources without entries
}

// New returns an Auditor, or an error for wrong names of fields.
func New(o Options) (*Auditor, error) {
	known, err := mapping(o.Fields)
	if err != nil {
		return nil, err
	}
	if o.ClockError == 0 {
		o.ClockError = 50 * time.Millisecond
	}
	if o.Window == 0 {
		o.Window = 2 * time.Second
	}
	a := &Auditor{
		Options: o, fields: known, p: o.Params, runs: map[string]int{}, instances: map[string]*instance{}, leases: map[string]*lease{}, epochs: map[string]*instance{},
		named: map[string]bool{},
	}
	for _, f := range a.findings() {
		f.broken = o.Broken
	}
	a.setTTL(int64(o.Params.TTL))
	return a, nil
}

// setTTL completes the timings by the TTL of the first term.
func (a *Auditor) setTTL(ttl int64) {
	if ttl == 0 || a.margin != 0 {
		return
	}
	d := time.Duration(ttl)
	for _, x := range []struct {
		of *time.Duration
		to time.Duration
	}{
		{&a.p.TTL, d}, {&a.p.Renew, d / 3}, {&a.p.RenewTimeout, d / 10}, {&a.p.Heartbeat, d / 3}, {&a.p.Discovery, d / 3},
		{&a.p.Poll, d / 6}, {&a.p.PollTimeout, d / 6},
	} {
		if *x.of == 0 {
			*x.of = x.to
		}
	}
	a.margin = a.p.Margin()
}

// Input is a log: lines of JSON.
type Input struct {
	Name string
	io.Reader
}

// Read judges the entries of logs, and returns the result.
func (a *Auditor) Read(logs ...Input) (check.Result, error) {
	m := a.merge(logs)
	if err := a.drain(m); err != nil {
		return check.Result{}, err
	}
	for _, s := range m.sources {
		if s.entries == 0 {
			a.empty = append(a.empty, s.name)
		}
	}
	return a.result(), nil
}

// Follow judges the entries of growing logs until wait, which it calls when it has read what there is, returns false.
func (a *Auditor) Follow(wait func() bool, logs ...Input) (check.Result, error) {
	m := a.merge(logs)
	for again := true; again; {
		again = wait()
		for _, s := range m.sources {
			s.tail, s.idle = again, false
		}
		if err := a.drain(m); err != nil {
			return check.Result{}, err
		}
	}
	return a.result(), nil
}

// drain judges the entries that can be read now.
func (a *Auditor) drain(m *merge) error {
	var e entry
	for {
		ok, err := m.next(&e)
		if err != nil || !ok {
			return err
		}
		a.take(&e)
	}
}

func (a *Auditor) merge(logs []Input) *merge {
	m := &merge{window: int64(a.Window), same: map[uint64]bool{}, counts: &a.counts}
	words, seed := map[string]string{}, maphash.MakeSeed()
	for _, log := range logs {
		m.sources = append(m.sources, &source{
			name: log.Name, in: bufio.NewReaderSize(log, 256<<10), scanner: scanner{a.fields, words}, seed: seed,
		})
	}
	return m
}

// finding is what was found about one guarantee.
type finding struct {
	id                 string
	exercised, excused int
	value              int64
	doubts             map[string]int // reasons why a pass is not certain
	order              []string
	breaks             []check.Break
	missing            []bool // whether missing lines could explain the break
	broken             func(id, text string)
}

const breaksMax = 50

func (f *finding) doubt(why string) {
	if f.doubts == nil {
		f.doubts = map[string]int{}
	}
	if f.doubts[why]++; f.doubts[why] == 1 {
		f.order = append(f.order, why)
	}
}

// fail records a break. absence says that it follows from what the log does not say.
func (f *finding) fail(b check.Break, absence bool, value int64, format string, args ...any) {
	f.value = max(f.value, value)
	b.Text = fmt.Sprintf(format, args...)
	if f.broken != nil {
		f.broken(f.id, b.Text)
	}
	if len(f.breaks) < breaksMax {
		f.breaks, f.missing = append(f.breaks, b), append(f.missing, absence)
	}
}

func (a *Auditor) findings() []*finding {
	all := []*finding{&a.owner, &a.rise, &a.closed, &a.failover, &a.balance, &a.told, &a.stop}
	for k, id := range Guarantees {
		all[k].id = id
	}
	return all
}

// Guarantees are the IDs of the guarantees that an audit judges.
var Guarantees = []string{"G1", "G3", "G4", "G5", "G6", "G12", "G13"}

// Params returns the parameters with the timings that were found, and the size of the fleet.
func (a *Auditor) Params() check.Params {
	p := a.p
	p.Nodes, p.Sessions = max(1, len(a.instances)), max(1, len(a.leases))
	return p
}

// Counts returns what was read.
func (a *Auditor) Counts() Counts {
	c := a.counts
	c.Instances, c.Leases = a.seen.Instances+int64(len(a.instances)), int64(len(a.leases))
	c.Unnamed = int64(len(a.named))
	fleets := map[*instance]bool{}
	for _, i := range a.instances {
		fleets[i.root()] = true
	}
	c.Fleets = int64(len(fleets))
	return c
}

// unread returns why lines may be missing that matter.
func (a *Auditor) unread() (why []string) {
	c := a.Counts()
	for _, x := range []struct {
		n    int64
		what string
	}{
		{c.Damaged, "%d damaged entries"}, {c.Late, "%d entries that came too late to be merged"}, {c.Dropped, "%d reports of dropped entries"},
		{c.Unnamed, "%d instances that others name have no log"},
	} {
		if x.n > 0 {
			why = append(why, fmt.Sprintf(x.what, x.n))
		}
	}
	if len(a.empty) > 0 {
		why = append(why, "no entry in "+strings.Join(a.empty, ", "))
	}
	return why
}

func (a *Auditor) result() check.Result {
	a.flushing = true
	a.judgeDue(forever.hi)
	if a.counts.Bare > 0 {
		a.told.fail(check.Break{From: a.now, To: a.now}, false, a.counts.Bare, "%d entries lack a time, an instance, an endpoint or a fence", a.counts.Bare)
	}
	r := check.Result{Complete: true, Stats: check.Stats{Events: a.counts.Lines, Entries: a.counts.Entries, LastT: a.now}}
	unread := a.unread()
	for _, f := range a.findings() {
		r.Verdicts = append(r.Verdicts, f.verdict(unread))
	}
	return r
}

func (f *finding) verdict(unread []string) check.Verdict {
	v := check.Constants(f.id)
	v.Value, v.Exercised, v.Excused, v.Verdict = f.value, f.exercised, f.excused, check.Unknown
	var say []string
	certain := slices.DeleteFunc(slices.Clone(f.breaks), func(b check.Break) bool {
		k := slices.IndexFunc(f.breaks, func(o check.Break) bool { return o.Text == b.Text && o.From == b.From })
		return len(unread) > 0 && f.missing[k]
	})
	for _, why := range f.order {
		say = append(say, fmt.Sprintf("%s (%d)", why, f.doubts[why]))
	}
	switch {
	case len(certain) > 0:
		v.Verdict, v.Breaks = check.Fail, certain
		v.Breaks[0].First = true
		say = slices.Insert(say, 0, certain[0].Text)
	case len(f.breaks) > 0:
		say = slices.Insert(say, 0, "missing lines may explain: "+f.breaks[0].Text)
	case len(f.order) > 0:
	case f.exercised == 0:
		say = append(say, "nothing in the log put it to the test")
	case len(unread) > 0:
	default:
		v.Verdict = check.Pass
	}
	v.Detail = strings.Join(append(say, unread...), "; ")
	return v
}
