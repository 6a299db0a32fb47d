package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/criteria"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/report"
)

func newCheck() *cobra.Command {
	var f output
	timeout := 15 * time.Minute
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "Judge a saved run again",
		Long: `Judge a saved run again, from its history, plan and logs. Exit codes are those of a run.

A history that ends within a line, or the history of a killed storm, is judged as far as it goes. It cannot pass: the exit code is 3
unless a guarantee is broken. If the logs are incomplete or were changed, only G12 is not judged, and the exit code is 3. If the
history, the plan or the scenario lacks lines or was changed, or if judging takes longer than --timeout, there is no verdict.`,
		Example: "  simulate check reports/storm-42",
		Args:    oneDir,
		RunE: func(cmd *cobra.Command, args []string) error {
			signal.Reset(os.Interrupt, syscall.SIGTERM) // check starts nothing and writes complete files only, so a signal may end it
			return f.again(cmd, args[0], timeout)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "give up without a verdict (exit code 3) after this `DURATION`")
	cmd.Flags().BoolVar(&f.json, "json", false, "print report.json and nothing else")
	f.registerJudged(cmd.Flags())
	cmd.Flags().BoolVar(&f.noHTML, "no-html", false, "write no report.html")
	return cmd
}

// again judges a saved run again. If the history is damaged, it judges the readable part and reports the damage.
func (f *output) again(cmd *cobra.Command, dir string, timeout time.Duration) error {
	r, judged, damage := judgeWithin(timeout, dir, cmd.ErrOrStderr())
	if !report.Readable(damage) {
		return damage
	}
	if cmd.Flags().Changed("min-exercised") {
		if f.least < 1 {
			return fmt.Errorf("--min-exercised %d: must be more than zero; leave it out to use the number of the saved run", f.least)
		}
		r.Config.Least = f.least
		r.Verdict = criteria.Decide(r.Params(), check.Result{Verdicts: r.Guarantees, Complete: judged.Complete})
	}
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	text := f.forPeople(stdout, stderr)
	if err := f.verdict(r, dir, stdout, text); err != nil {
		return err
	}
	switch {
	case damage == nil, r.Verdict == check.Fail, errors.Is(damage, history.ErrUnfinished):
	default:
		return fmt.Errorf("judged as far as it can be read: %w", damage)
	}
	if damage != nil {
		fmt.Fprintf(stderr, "simulate: judged as far as it can be read: %v\n", redisurl.Line(damage))
	}
	return exit(r.Verdict)
}

// judgeWithin judges a saved run. Somebody may have made up its files, so the program ends when the time is over.
func judgeWithin(timeout time.Duration, dir string, stderr io.Writer) (report.Report, check.Result, error) {
	giveUp := sync.OnceFunc(func() {
		fmt.Fprintf(stderr, "simulate: %s was not judged within %v: --timeout allows more\n", plain.Text(dir), timeout)
		os.Exit(exitWrong)
	})
	begin := time.Now()
	defer time.AfterFunc(timeout, giveUp).Stop()
	r, judged, err := report.Judge(dir)
	if time.Since(begin) >= timeout { // on a busy host, the timer is late
		giveUp()
	}
	return r, judged, err
}
