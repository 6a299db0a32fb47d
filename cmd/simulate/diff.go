package main

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/page"
	"github.com/leasestorm/leasestorm/sim/report"
)

// Number of events printed around the one at which two runs differ.
const (
	alikeShown = 6
	partsShown = 10
)

func newDiff() *cobra.Command {
	noHTML := false
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Show the first event at which two saved runs differ",
		Long: `Compare the histories of two saved runs in virtual time, event by event: one plan played by two versions of the library, or
two plans that differ by a fault. diff prints how the plans differ, the first event that differs, and the events around it. It writes
the page of B with these events as diff.html into B's folder. Two real runs always differ, in their times. Exit codes: 0 the runs are
equal, 1 they differ, 3 one cannot be read.`,
		Example: "  simulate diff reports/storm-42 reports/storm-42-2",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" || args[1] == "" {
				return fmt.Errorf("%s needs the folders of two saved runs", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := diff(args[0], args[1])
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			printParting(out, args[0], args[1], p)
			if !p.Parts {
				return nil
			}
			if !noHTML {
				showParting(out, args[1], p)
			}
			return verdictError(exitFail)
		},
	}
	cmd.Flags().BoolVar(&noHTML, "no-html", false, "write no "+page.DiffName)
	return cmd
}

func diff(a, z string) (page.Parting, error) {
	p := page.Parting{With: plain.Text(a)}
	if err := planDiff(&p, a, z); err != nil {
		return p, err
	}
	nextA, stopA := iter.Pull2(history.Open(a))
	defer stopA()
	nextZ, stopZ := iter.Pull2(history.Open(z))
	defer stopZ()
	for {
		x, errX, okX := nextA()
		y, errY, okY := nextZ()
		switch {
		case errX != nil || errY != nil:
			return p, errors.Join(errX, errY)
		case !okX && !okY:
			return p, nil
		case okX && okY && x == y:
			p.Same++
			p.At = x.T
			p.Before = append(p.Before[max(0, len(p.Before)-alikeShown+1):], report.Line(&x))
			continue
		}
		p.Parts = true
		if okY {
			p.At = y.T
		}
		p.There, errX = side(&x, okX, nextA)
		p.Here, errY = side(&y, okY, nextZ)
		return p, errors.Join(errX, errY)
	}
}

func side(e *history.Event, ok bool, next func() (history.Event, error, bool)) (lines []string, err error) {
	for range partsShown {
		if !ok {
			return append(lines, "its end"), nil
		}
		lines = append(lines, report.Line(e))
		if *e, err, ok = next(); err != nil {
			return lines, err
		}
	}
	return lines, nil
}

func printParting(out io.Writer, a, z string, p page.Parting) {
	for _, line := range p.Plans {
		fmt.Fprintln(out, line)
	}
	if !p.Parts {
		fmt.Fprintf(out, "equal: %d events\n", p.Same)
		return
	}
	fmt.Fprintf(out, "equal for %d events; then they differ\n", p.Same)
	show := func(lines []string) {
		for _, line := range lines {
			fmt.Fprintf(out, "  %s\n", line)
		}
	}
	show(p.Before)
	fmt.Fprintln(out, plain.Text(a))
	show(p.There)
	fmt.Fprintln(out, plain.Text(z))
	show(p.Here)
}

func showParting(out io.Writer, to string, p page.Parting) {
	r, _, damage := report.Judge(to)
	if !report.Readable(damage) {
		fmt.Fprintf(out, "note: diff.html was not written: %v\n", redisurl.Line(damage))
		return
	}
	if err := page.SaveParting(to, r, p); err != nil {
		fmt.Fprintf(out, "note: %v\n", redisurl.Line(err))
		return
	}
	fmt.Fprintf(out, "  see it:          %s\n", plain.Text(filepath.Join(to, page.DiffName)))
}

func planDiff(p *page.Parting, a, z string) error {
	x, err := report.Load(a)
	if err != nil {
		return err
	}
	y, err := report.Load(z)
	if err != nil {
		return err
	}
	only := func(dir string, has, other []fault.Fault) {
		known := planOf(other)
		for _, f := range has {
			if !known.has(f) {
				p.Plans = append(p.Plans, fmt.Sprintf("only in %s: %v %s %s %s", plain.Text(dir), f.At, f.Kind, plain.Text(f.Target), amount(f)))
			}
		}
	}
	only(a, x.Faults, y.Faults)
	only(z, y.Faults, x.Faults)
	return nil
}

// planOf returns the faults of a plan. It includes both forms of a fault of an owner: a plan aims at an owner, and its replay names the
// node that was hit (owner:node-7).
func planOf(faults []fault.Fault) planned {
	p := make(planned, 2*len(faults))
	for _, f := range faults {
		_, counterpart := forms(f)
		p[f], p[counterpart] = true, true
	}
	return p
}

type planned map[fault.Fault]bool

func (p planned) has(f fault.Fault) bool {
	own, _ := forms(f)
	return p[f] || p[own]
}

// forms returns a fault of an owner in its own form and in the other form that planOf describes.
func forms(f fault.Fault) (own, counterpart fault.Fault) {
	own, counterpart = f, f
	if !f.Aims() {
		return own, counterpart
	}
	own.Target, counterpart.Target = "an owner", "the node that was hit"
	if _, hit := fault.NodeIndex(strings.TrimPrefix(f.Target, fault.OwnerTarget(""))); hit {
		own.Target, counterpart.Target = counterpart.Target, own.Target
	}
	return own, counterpart
}
