package main

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/report"
)

// What is printed around the event at which two runs part.
const (
	alikeShown = 6
	partsShown = 10
)

func newDiff() *cobra.Command {
	return &cobra.Command{
		Use:   "diff A B",
		Short: "Say at which event two saved runs part",
		Long: `diff compares the histories of two saved runs, event by event: a plan that was played twice in virtual time, by two versions of
the library or by one that is broken, or a plan and one with a fault less. It prints where their plans differ, the first event
at which they part, and what stands before and after it. Of two real runs the first events part already, by their times. Exit
codes: 0 they are the same, 1 they part, 3 one cannot be read.`,
		Example: "  simulate diff reports/storm-42 reports/storm-42-2",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" || args[1] == "" {
				return fmt.Errorf("%s needs the folders of two saved runs", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			guardMemory(args[0]+" and "+args[1], memoryFor(args[0])+memoryFor(args[1]))
			parts, err := diff(cmd.OutOrStdout(), args[0], args[1])
			if err == nil && parts {
				return verdictError(exitFail)
			}
			return err
		},
	}
}

// diff says where the two runs part, and whether they do.
func diff(out io.Writer, a, z string) (parts bool, err error) {
	if err := planDiff(out, a, z); err != nil {
		return false, err
	}
	nextA, stopA := iter.Pull2(history.Open(a))
	defer stopA()
	nextZ, stopZ := iter.Pull2(history.Open(z))
	defer stopZ()
	var alike []history.Event
	for n := 0; ; n++ {
		x, errX, okX := nextA()
		y, errY, okY := nextZ()
		switch {
		case errX != nil || errY != nil:
			return false, errors.Join(errX, errY)
		case !okX && !okY:
			fmt.Fprintf(out, "the same: %d events\n", n)
			return false, nil
		case okX && okY && x == y:
			alike = append(alike[max(0, len(alike)-alikeShown+1):], x)
			continue
		}
		fmt.Fprintf(out, "the same for %d events; then they part\n", n)
		for i := range alike {
			fmt.Fprintf(out, "  %s\n", report.Line(&alike[i]))
		}
		return true, errors.Join(side(out, a, &x, okX, nextA), side(out, z, &y, okY, nextZ))
	}
}

// side writes what one of them goes on with.
func side(out io.Writer, dir string, e *history.Event, ok bool, next func() (history.Event, error, bool)) error {
	fmt.Fprintf(out, "%s\n", plain.Text(dir))
	var err error
	for range partsShown {
		if !ok {
			fmt.Fprintln(out, "  its end")
			return nil
		}
		fmt.Fprintf(out, "  %s\n", report.Line(e))
		if *e, err, ok = next(); err != nil {
			return err
		}
	}
	return nil
}

// planDiff says which faults only one of the runs has.
func planDiff(out io.Writer, a, z string) error {
	x, err := report.Load(a)
	if err != nil {
		return err
	}
	y, err := report.Load(z)
	if err != nil {
		return err
	}
	only := func(dir string, has, other []fault.Fault) {
		for _, f := range has {
			if !slices.Contains(other, f) {
				fmt.Fprintf(out, "only in %s: %v %s %s %s\n", plain.Text(dir), f.At, f.Kind, plain.Text(f.Target), amount(f))
			}
		}
	}
	only(a, x.Faults, y.Faults)
	only(z, y.Faults, x.Faults)
	return nil
}
