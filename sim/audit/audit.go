// Package audit judges the structured logs of a fleet that nobody stormed: one owner (G1), rising fences (G3), fail-closed (G4), failover
// (G5), balance (G6), complete entries (G12) and clean stops (G13). It has less to go by than the judge of storms (sim/check), whose limits
// it uses: it knows no faults, and the clocks of hosts differ. So a guarantee fails only if no error of the clocks, no missing line and no
// fault that the log shows can explain what happened. What they may explain is unknown.
package audit

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/audit/logs"
	"github.com/leasestorm/leasestorm/sim/check"
)

// Options are the parameters of an audit.
type Options struct {
	Fields     string                // names of fields: "instance=host,ts=time"
	ClockError time.Duration         // largest error of a host's clock; default 50 ms
	Window     time.Duration         // by which the entries of a file may be out of order; default 2 s
	Params     check.Params          // limits; timings that are 0 follow from the TTL of the first term
	Broken     func(id, text string) // called for each break, at once
	Took       func(e *logs.Entry)   // called for each entry, after it was judged
}

// Counts counts what was read.
type Counts struct {
	logs.Counts
	Dropped, Clocks, Unnamed  int64 // losses that the logs report; clocks that contradict their error; instances without a log
	Instances, Leases, Fleets int64
}

// Auditor judges entries as they come. It forgets terms that are over.
type Auditor struct {
	Options
	names           logs.Names
	reader          *logs.Reader
	p               *limits
	agenda          *agenda
	instances       *instances
	leases          leases
	dropped, clocks int64
	forgotten       int64 // leases
	start           int64 // time of the first entry

	owners    owners
	fences    fences
	closed    closed
	takeovers takeovers
	balance   balance
	told      finding // entries are complete (G12)
}

// Guarantees are the IDs of the guarantees that an audit judges.
var Guarantees = []string{"G1", "G3", "G4", "G5", "G6", "G12", "G13"}

// New returns an Auditor, or an error for wrong names of fields.
func New(o Options) (*Auditor, error) {
	names, err := logs.Rename(o.Fields)
	if err != nil {
		return nil, err
	}
	o.ClockError = cmp.Or(o.ClockError, 50*time.Millisecond)
	o.Window = cmp.Or(o.Window, 2*time.Second)
	p, g := &limits{Params: o.Params}, &agenda{}
	all := &instances{all: map[string]*instance{}, epochs: map[string]*instance{}, runs: map[string]int{}, named: map[string]bool{}}
	a := &Auditor{
		Options: o, names: names, reader: logs.NewReader(names, o.Window), p: p, agenda: g, instances: all, leases: leases{},
		owners: owners{p: p, agenda: g}, fences: fences{p: p}, closed: closed{p: p},
		takeovers: takeovers{p: p, agenda: g, instances: all, incidents: map[incidentKey]*incident{}}, balance: balance{p: p, instances: all},
	}
	for k, f := range a.findings() {
		f.id, f.broken, f.doubts = Guarantees[k], o.Broken, map[string]int{}
	}
	p.setTTL(int64(o.Params.TTL))
	return a, nil
}

func (a *Auditor) findings() []*finding {
	return []*finding{
		&a.owners.finding, &a.fences.finding, &a.closed.finding, &a.takeovers.failover, &a.balance.finding, &a.told, &a.takeovers.stop,
	}
}

// Read judges the entries of logs, and returns the result.
func (a *Auditor) Read(in ...logs.Input) (check.Result, error) {
	return a.Follow(func() bool { return false }, in...)
}

// Follow judges the entries of growing logs until wait, which it calls when it has read what there is, returns false.
func (a *Auditor) Follow(wait func() bool, in ...logs.Input) (check.Result, error) {
	a.reader = logs.NewReader(a.names, a.Window, in...)
	var e logs.Entry
	for again := true; again; {
		again = wait()
		a.reader.Resume(again)
		for {
			ok, err := a.reader.Next(&e)
			if err != nil {
				return check.Result{}, err
			}
			if !ok {
				break
			}
			a.take(&e)
			if a.Took != nil {
				a.Took(&e)
			}
		}
	}
	return a.result(), nil
}

// Params returns the parameters with the timings that were found, and the size of the fleet.
func (a *Auditor) Params() check.Params {
	p := a.p.Params
	p.Nodes, p.Sessions = max(1, len(a.instances.all)), max(1, len(a.leases))
	return p
}

// Counts returns what was read.
func (a *Auditor) Counts() Counts {
	s := a.instances
	return Counts{
		Counts: a.reader.Counts, Dropped: a.dropped, Clocks: a.clocks, Unnamed: int64(len(s.named)),
		Instances: s.ended + int64(len(s.all)), Leases: a.forgotten + int64(len(a.leases)), Fleets: s.fleets(),
	}
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
	if empty := a.reader.Empty(); len(empty) > 0 {
		why = append(why, "no entry in "+strings.Join(empty, ", "))
	}
	return why
}

func (a *Auditor) result() check.Result {
	now, c := a.agenda.now, a.reader.Counts
	a.agenda.over = true
	a.agenda.reach(forever.hi)
	if c.Bare > 0 {
		a.told.fail(during(nil, now, now), c.Bare, "%d entries lack a time, an instance, an endpoint or a fence", c.Bare)
	}
	r := check.Result{Complete: true, Stats: check.Stats{Events: c.Lines, Entries: c.Entries, LastT: now}}
	unread := a.unread()
	for _, f := range a.findings() {
		r.Verdicts = append(r.Verdicts, f.verdict(unread))
	}
	return r
}
