package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/criteria"
	"github.com/leasestorm/leasestorm/sim/page"
	"github.com/leasestorm/leasestorm/sim/report"
)

func newShrink() *cobra.Command {
	f := shrinking{player: player{shrinks: true}}
	cmd := &cobra.Command{
		Use:   "shrink DIR|SEED",
		Short: "Make a run that breaks a guarantee as small as possible",
		Long: `Search, in virtual time, for the smallest run that still breaks a guarantee: the fewest faults, nodes and sessions, and the
shortest time. Give a saved run, or a seed with the flags of its exploration. The guarantee is the first that the run broke, or the
one of --criteria. The folder of the smallest run has a scenario of a few lines.

Virtual time runs this program's own library, even if the run's nodes were another program. --confirm-real plays the result up to
three times on processes and Redis, with a TTL of at most 3 s; --node-cmd names the node program. A program that a scenario file
names needs --allow-node-cmd. A program that a saved run names never starts unless --node-cmd names it again.

Exit codes: 0 shrunk (and confirmed, where --confirm-real asked for it); 2 not confirmed on the real engine, or interrupted, with
the smallest run so far saved; 3 the run breaks nothing in virtual time, or the command line is wrong.`,
		Example: "  simulate shrink reports/swarm-42\n  simulate shrink 42 --confirm-real",
		Args:    dirOrSeed,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.shrink(cmd, args[0])
		},
	}
	f.register(cmd.Flags())
	cmd.Flags().BoolVar(&f.toConfirm, "confirm-real", false, "run the smallest run on the real engine too")
	return cmd
}

type shrinking struct {
	player
	toConfirm bool
}

func (f *shrinking) shrink(cmd *cobra.Command, arg string) error {
	c, guarantee, err := f.toShrink(cmd, arg)
	if err != nil {
		return err
	}
	nodeCmd := c.NodeCmd
	if c.NodeCmd, err = f.playable(cmd, nodeCmd); err != nil {
		return err
	}
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	text := f.forPeople(stdout, stderr)
	ours := ""
	if len(nodeCmd) > 0 && len(c.NodeCmd) == 0 {
		ours = fmt.Sprintf("the run's node is %s, but shrink plays this program's own library only, in virtual time", quoted(nodeCmd))
		fmt.Fprintf(stderr, "note: %s; what breaks that node is played again by simulate replay\n", ours)
	}
	progress := func(s sim.Size) { fmt.Fprintf(stderr, "still broken with %v\n", s) }
	if f.quiet {
		progress = nil
	}
	s, err := sim.Shrink(cmd.Context(), c, guarantee, f.bend(), progress)
	switch {
	case errors.Is(err, sim.ErrNothingBroke) && ours != "":
		return fmt.Errorf("%w; %s", err, ours)
	case err != nil:
		return err
	}
	r, err := s.Save(context.WithoutCancel(cmd.Context()), f.report, f.bend()) // a second Ctrl-C ends the program
	if err != nil {
		return err
	}
	r.Report.Smallest, r.Report.ReplayFlags = !s.Cut, nodeFlag(c.NodeCmd)
	if err := f.verdict(r.Report, r.Dir, stdout, text); err != nil {
		return err
	}
	f.enlarge(text, r.Dir)
	scenario := filepath.Join(r.Dir, sim.ShrunkFile)
	fmt.Fprintf(text, "\n%s still breaks with %v (from %v, in %d runs)\n  the scenario:    simulate --engine virtual --scenario %s\n",
		s.Guarantee, s.To, s.From, s.Runs, scenario)
	switch {
	case s.Cut:
		fmt.Fprintf(text, "interrupted: a smaller run may break it too; to go on: simulate shrink %s\n", plain.Word(r.Dir))
		return verdictError(exitUnknown)
	case !f.toConfirm:
		return nil
	}
	return f.confirm(cmd, s, nodeCmd, text)
}

// playable returns the nodes that virtual time plays: a Go program, which it builds, or none for this program's own.
func (f *shrinking) playable(cmd *cobra.Command, nodeCmd []string) ([]string, error) {
	switch {
	case sim.IsGo(nodeCmd) && f.toConfirm:
		return nil, errors.New("--confirm-real: a Go program runs in virtual time only: leave it out")
	case sim.IsGo(nodeCmd):
		return nodeCmd, f.buildGuest(cmd, nodeCmd)
	case f.toConfirm:
		return nil, f.mayStart(cmd, nodeCmd)
	}
	return nil, nil
}

// enlarge adds the smallest run to the page of the original run. It prints an error as a note.
func (f *shrinking) enlarge(text io.Writer, smaller string) {
	if f.saved == "" || f.noHTML {
		return
	}
	r, _, err := report.Judge(f.saved)
	if report.Readable(err) {
		if err = page.AddSmaller(f.saved, smaller); err == nil {
			_, err = page.Save(f.saved, r, true)
		}
	}
	if err != nil {
		fmt.Fprintf(text, "note: the page of %s has no link to the smaller run: %v\n", plain.Text(f.saved), redisurl.Line(err))
	}
}

// toShrink returns the run to shrink and the guarantee that must stay broken, "" for the first that the run breaks.
func (f *shrinking) toShrink(cmd *cobra.Command, arg string) (sim.Config, string, error) {
	fs := cmd.Flags()
	guarantee := ""
	if fs.Changed("criteria") {
		ids, err := criteria.Parse(f.criteria)
		if err != nil {
			return sim.Config{}, "", fmt.Errorf("--criteria: %w", err)
		}
		if len(ids) != 1 {
			return sim.Config{}, "", fmt.Errorf("--criteria %s: shrink searches for the smallest break of one guarantee: name only one", f.criteria)
		}
		guarantee = ids[0]
	}
	c, err := f.recalled(fs, arg)
	return c, guarantee, err
}

// confirmTries is more than 1 because processes and sockets interleave differently each time.
const confirmTries = 3

// confirm checks that the smallest run also breaks the guarantee on real processes and Redis. An empty nodeCmd runs the reference node.
func (f *shrinking) confirm(cmd *cobra.Command, s sim.Shrunk, nodeCmd []string, text io.Writer) error {
	c, err := s.Real()
	if err != nil {
		return fmt.Errorf("--confirm-real: %w", err)
	}
	c.NodeCmd = nodeCmd
	f.lua = false // the real engine always runs the scripts
	if s.Config.Virtual != (sim.Virtual{}) {
		fmt.Fprintln(text, "note: the real engine's network and clocks are as they are, not as the smallest run's")
	}
	fmt.Fprintf(text, "\nconfirming on the real engine, TTL %v, %v per try\n", c.TTL, c.Duration())
	dir := ""
	for try := 1; try <= confirmTries; try++ {
		engine, err := f.newEngine(c, nil)
		if err != nil {
			return err
		}
		r, err := sim.Run(cmd.Context(), c, sim.Options{Engine: engine, Reports: f.report})
		if err != nil {
			return err
		}
		if v, _ := (check.Result{Verdicts: r.Report.Guarantees}).Verdict(s.Guarantee); v.Verdict == check.Fail {
			fmt.Fprintf(text, "confirmed at try %d: the real engine breaks %s too, see %s\n  %s\n", try, s.Guarantee, r.Dir, plain.Text(v.Detail))
			return nil
		}
		if dir = r.Dir; r.Outcome.Interrupted {
			break
		}
	}
	fmt.Fprintf(text, "not confirmed: in %d runs of this plan, the real engine did not break %s, see %s\n", confirmTries, s.Guarantee, dir)
	return verdictError(exitUnknown)
}
