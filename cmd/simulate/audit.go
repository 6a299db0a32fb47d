package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/version"
	"github.com/leasestorm/leasestorm/sim/audit"
	"github.com/leasestorm/leasestorm/sim/audit/logs"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/criteria"
	"github.com/leasestorm/leasestorm/sim/report"
)

// auditFlags are the flags of simulate audit.
type auditFlags struct {
	audit.Options
	criteria        string
	json, follow    bool
	report, metrics string
}

func newAudit() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit FILE…",
		Short: "Judge the logs of a fleet that nobody stormed",
		Long: `Judge the structured logs of a fleet: one owner (G1), rising fences (G3), fail-closed (G4), failover (G5), balance (G6),
complete entries (G12) and clean stops (G13). Files may be compressed with gzip; - is standard input. Give the logs
of all instances at once. docs/auditing.md says what a verdict means.

Exit codes are those of a run.`,
		Example: `  simulate audit host-*.log.gz
  zstdcat host-1.log.zst | simulate audit - host-2.log
  simulate audit --follow /var/log/poller/*.log`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("audit needs the log files of a fleet, or - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.DurationVar(&f.ClockError, "clock-error", 50*time.Millisecond, "largest error of a host's clock")
	fs.StringVar(&f.Fields, "field", "", "other names of fields, `NAME=NAME,…`, such as instance=host,ts=@timestamp")
	fs.DurationVar(&f.Window, "window", 2*time.Second, "by how much the entries of a file may be out of order")
	fs.DurationVar(&f.Params.Renew, "renew", 0, "time between renewals (default a third of the TTL)")
	fs.DurationVar(&f.Params.RenewTimeout, "renew-timeout", 0, "time-out of a renewal (default a tenth of the TTL)")
	fs.DurationVar(&f.Params.Discovery, "discovery", 0, "time between discoveries (default a third of the TTL)")
	fs.StringVar(&f.criteria, "criteria", "", "guarantees that decide the verdict, `G1,G5` (default: G1, G3, and all that the logs test)")
	fs.BoolVar(&f.json, "json", false, "print report.json and nothing else")
	fs.BoolVar(&f.follow, "follow", false, "go on as the files grow, and print each break at once; an interrupt ends it")
	fs.StringVar(&f.report, "report", "", "write report.json, the history of leases and the page of a run to `DIR`")
	fs.StringVar(&f.metrics, "metrics", "", "with --follow: serve Prometheus counters at `ADDR`/metrics")
	return cmd
}

func (f *auditFlags) run(cmd *cobra.Command, names []string) error {
	switch {
	case f.ClockError <= 0 || f.Window < 0:
		return errors.New("--clock-error must be more than zero, and --window not less")
	case f.metrics != "" && !f.follow:
		return errors.New("--metrics needs --follow")
	}
	var named []string
	if f.criteria != "" {
		var err error
		if named, err = criteria.Parse(f.criteria); err != nil {
			return fmt.Errorf("--criteria: %w", err)
		}
	}
	var in []logs.Input
	for _, name := range names {
		r, err := logs.Open(name, f.follow)
		if err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		defer r.Close()
		in = append(in, logs.Input{Name: name, Reader: r})
	}
	var a *audit.Auditor
	counters, lanes := &auditCounters{}, &auditHistory{dir: f.report}
	f.Took = func(e *logs.Entry) {
		counters.update(a)
		lanes.add(a, e)
	}
	wait := f.waits(cmd)
	a, err := audit.New(f.Options)
	if err != nil {
		return err
	}
	if err := counters.serve(f.metrics); err != nil {
		return err
	}
	defer counters.close()
	r, err := a.Follow(wait, in...)
	if err != nil {
		return err
	}
	counters.update(a)
	rep := f.judged(a, r, named)
	if err := lanes.save(rep); err != nil {
		return err
	}
	return f.print(cmd.OutOrStdout(), rep)
}

// waits returns what waits until files may have grown; false ends the audit.
func (f *auditFlags) waits(cmd *cobra.Command) func() bool {
	if !f.follow {
		signal.Reset(os.Interrupt, syscall.SIGTERM)
		return func() bool { return false }
	}
	f.Broken = func(id, text string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s %s is BROKEN: %s\n", id, check.Promise(id), plain.Text(text))
	}
	return func() bool {
		select {
		case <-cmd.Context().Done():
			return false
		case <-time.After(followEvery):
			return true
		}
	}
}

const followEvery = 200 * time.Millisecond

// audited is the report.json of an audit.
type audited struct {
	report.Report
	Logs audit.Counts `json:"logs"`
}

// judged returns the report. Its times count from the first entry.
func (f *auditFlags) judged(a *audit.Auditor, r check.Result, named []string) *audited {
	p := a.Params()
	if p.Criteria = named; named == nil {
		for _, v := range r.Verdicts {
			if v.Exercised > 0 || v.Verdict == check.Fail || v.ID == "G1" || v.ID == "G3" {
				p.Criteria = append(p.Criteria, v.ID)
			}
		}
	}
	start := a.Start()
	for _, v := range r.Verdicts {
		for k := range v.Breaks {
			v.Breaks[k].From, v.Breaks[k].To = v.Breaks[k].From-start, v.Breaks[k].To-start
		}
	}
	p.Scenario = "audit"
	p.Duration = time.Duration(max(0, r.Stats.LastT-start))
	meta := report.Meta{Engine: report.EngineLogs, Commit: version.String(), Redis: report.Redis{Kind: "logs"}}
	return &audited{report.New(meta, p, r), a.Counts()}
}

func (f *auditFlags) print(w io.Writer, rep *audited) error {
	var err error
	if f.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		err = e.Encode(rep)
	} else {
		err = rep.table(w)
	}
	if err != nil {
		return fmt.Errorf("write the verdict: %w", err)
	}
	return exit(rep.Verdict)
}

func (r *audited) table(w io.Writer) error {
	if err := r.Table(w); err != nil {
		return err
	}
	var b strings.Builder
	for _, v := range r.Guarantees {
		if v.Verdict == check.Fail || v.Verdict == check.Unknown && slices.Contains(r.Config.Criteria, v.ID) {
			fmt.Fprintf(&b, "%s %s: %s\n", v.ID, v.Verdict, plain.Text(v.Detail))
		}
	}
	c := r.Logs
	fmt.Fprintf(&b, "\n%d lines, %d entries of %d instances and %d leases\n", c.Lines, c.Entries, c.Instances, c.Leases)
	for _, x := range []struct {
		n    int64
		what string
	}{
		{c.Plain, "lines are no JSON"}, {c.Damaged, "entries are damaged"}, {c.Cut, "files end within a line"},
		{c.Bare, "entries lack a field"}, {c.Duplicates, "entries are there twice"}, {c.Late, "entries came too late to be merged (--window)"},
		{c.Dropped, "reports of dropped entries"}, {c.Clocks, "grants contradict --clock-error or the clocks' rates"},
		{c.Unnamed, "instances are named and have no log"}, {max(0, c.Fleets-1), "instances or groups more than one fleet"},
	} {
		if x.n > 0 {
			fmt.Fprintf(&b, "  %d %s\n", x.n, x.what)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
