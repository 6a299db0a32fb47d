package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/report"
)

// player runs one storm: that of its flags, or a saved one again.
type player struct {
	storm
	environment
	output

	saved      string // folder of the run to repeat; "": none
	shrinks    bool   // the run is made smaller: --criteria names the guarantee that must stay broken, even of a saved run
	aimAnew    bool   // faults of owners hit the present owners
	retargeted int    // number of faults that hit the same nodes as in the saved run
}

func (f *player) register(fs *pflag.FlagSet) {
	fs.SortFlags = false
	f.storm.register(fs)
	f.environment.register(fs)
	f.output.register(fs)
}

// given returns the scenario of the file and the flags. Values that neither gives stay unset.
func (f *player) given(fs *pflag.FlagSet) (sim.Scenario, error) {
	s, err := f.load()
	if err != nil {
		return sim.Scenario{}, err
	}
	wrong := []error{f.storm.check(fs), f.check(fs)}
	if fs.Changed("engine") {
		s.Engine = f.engine
	}
	if s.NodeCmd, err = f.nodeOf(fs, s.NodeCmd); err != nil {
		wrong = append(wrong, err)
	}
	return s, errors.Join(append(wrong, f.apply(fs, &s))...)
}

// check refuses flags that contradict each other, whether the storm is given or saved.
func (f *player) check(fs *pflag.FlagSet) error {
	var fleet error
	if f.shrinks && fs.Changed("compose") {
		fleet = errNoFleet
	}
	return errors.Join(f.output.check(fs), f.environment.check(fs), fleet)
}

func (f *player) run(cmd *cobra.Command, c sim.Config) error {
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	text := f.forPeople(stdout, stderr)
	engine, err := f.prepare(cmd, &c)
	if err != nil {
		return err
	}
	f.forgets(stderr, c)
	if f.retargeted > 0 && !f.quiet {
		fmt.Fprintf(text, "faults of owners that hit the same instances as in %s: %d (--aim-anew hits the present owners)\n", plain.Text(f.saved),
			f.retargeted)
	}
	bar := newProgress(stderr, c.Duration())
	o := sim.Options{Engine: engine, Reports: f.report, Least: f.least}
	if !f.quiet {
		o.Started = func(s sim.Start) { printStart(text, s, f.verbose) }
		o.Progress = bar.show
	}
	r, unsaved := sim.Run(cmd.Context(), c, o)
	bar.done()
	if unsaved != nil && !errors.Is(unsaved, sim.ErrUnsaved) {
		return unsaved
	}
	r.Report.ReplayFlags = f.replayFlags(r)
	printNotes(text, r)
	if err := f.verdict(r.Report, r.Dir, stdout, text); err != nil {
		return err
	}
	if unsaved != nil && r.Report.Verdict != check.Fail {
		return unsaved
	}
	if unsaved != nil {
		fmt.Fprintf(stderr, "simulate: %s\n", redisurl.Line(unsaved))
	}
	if err := f.compare(r, text); err != nil {
		return err
	}
	return exit(r.Report.Verdict)
}

// prepare returns the engine, and completes the command of the configuration's nodes.
func (f *player) prepare(cmd *cobra.Command, c *sim.Config) (sim.Engine, error) {
	if c.Engine == sim.EngineReal {
		if err := f.mayStart(cmd, c.NodeCmd); err != nil {
			return nil, err
		}
	}
	if err := f.buildGuest(cmd, c.NodeCmd); err != nil {
		return nil, err
	}
	c.NodeCmd = f.withBug(c.NodeCmd)
	pulling := func(image string) { fmt.Fprintf(cmd.ErrOrStderr(), "pulling %q\n", image) }
	if f.quiet {
		pulling = func(string) {}
	}
	return f.newEngine(*c, pulling)
}

func printNotes(text io.Writer, r sim.Result) {
	for _, note := range r.Outcome.Notes {
		fmt.Fprintf(text, "note: %s\n", note)
	}
	if r.Outcome.Late > 0 {
		fmt.Fprintf(text, "note: faults that were injected later than planned, as the host was busy: %d\n", r.Outcome.Late)
	}
	if r.Outcome.Interrupted {
		fmt.Fprintln(text, "note: interrupted: judged as far as it went")
	}
	if missing := missed(r.Config.Faults, r.Plan); missing != "" {
		fmt.Fprintf(text, "note: the storm is too short for: %s\n", missing)
	}
}

// errNotAllowed reports a node program that only a file names, not the command line.
var errNotAllowed = errors.New("not started")

// mayStart returns nil if the command is allowed as node and can be started.
func (f *player) mayStart(cmd *cobra.Command, command []string) error {
	if len(command) == 0 {
		return nil
	}
	if err := f.allowed(cmd, command); err != nil {
		return err
	}
	return f.startable(command)
}

// allowed accepts a node command from the command line, and one from a scenario file with --allow-node-cmd. It never accepts one from a
// saved run, because the author of the folder chose it.
func (f *player) allowed(cmd *cobra.Command, command []string) error {
	flag, words := flagOf(command)
	switch {
	case slices.ContainsFunc(nodeFlags, cmd.Flags().Changed):
		return nil
	case f.saved != "":
		return fmt.Errorf("%w: %s says that its nodes were %s: give --%s to say what to start", errNotAllowed, f.saved, quoted(words), flag)
	case !f.allowNodeCmd:
		return fmt.Errorf("%w: scenario %s names %s as node: give --allow-node-cmd to start it, or --%s", errNotAllowed, f.scenario,
			quoted(words), flag)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "the scenario names this node program: %s\n", quoted(words))
	return nil
}

// forgets prints the variables of the saved run's nodes that the nodes of its replay lack or have with other values.
func (f *player) forgets(out io.Writer, c sim.Config) {
	if f.saved == "" || c.Engine != sim.EngineReal {
		return
	}
	was, err := report.Load(f.saved)
	if err != nil { // already loaded, or nothing to compare with
		return
	}
	had, _ := sim.NodeCommand(was.NodeCmd)
	has, _ := sim.NodeCommand(c.NodeCmd)
	for _, v := range had {
		if !slices.Contains(has, v) {
			fmt.Fprintf(out, "note: the nodes of %s had %s, but these nodes do not: the outcome may differ\n", plain.Text(f.saved), plain.Word(v))
		}
	}
}

// errOther reports a replay in virtual time whose history differs from the saved one.
var errOther = errors.New("the replay's history is not the saved one")

// compare compares the history of a replay with the saved one if they must be equal: in virtual time and if neither run was interrupted.
func (f *player) compare(r sim.Result, text io.Writer) error {
	if f.saved == "" || r.Outcome.Interrupted || r.Config.Engine != sim.EngineVirtual {
		return nil
	}
	was, err := report.Load(f.saved)
	if err != nil {
		return fmt.Errorf("the history cannot be compared with the saved one: %w", err)
	}
	if was.Engine != sim.EngineVirtual || was.Config.Interrupted || was.Stats.HistorySHA256 == "" {
		return nil
	}
	if sum := was.Stats.HistorySHA256; sum != r.Outcome.SHA256 {
		return fmt.Errorf("%w: its sha256 is %s, saved is %s: the saved run was changed, or its program (commit %q) is not this one "+
			"(commit %q, in %s)", errOther, r.Outcome.SHA256, sum, was.Commit, r.Report.Commit, r.Dir)
	}
	fmt.Fprintln(text, "  replayed:        the history is the saved one, bit by bit")
	return nil
}
