package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim"
)

func newReplay() *cobra.Command {
	var f player
	cmd := &cobra.Command{
		Use:   "replay DIR|SEED",
		Short: "Run the storm of a saved run, or of an exploration's seed, again",
		Long: `Run the scenario and the plan of a saved run again, into a new folder. In virtual time the history is the same byte for byte,
or replay reports the difference. On the real engine the faults hit the same targets at the same times, but the outcome may differ. A
fault that hit an owner hits the same node again; with --aim-anew, it hits the present owner. A folder whose files were changed is
refused. A replay never starts a node program just because the saved folder names it. It starts only this program's own node and Redis;
to start another node program, give --node-cmd.

replay SEED draws that seed as simulate --seeds does; give the flags of the exploration. SEED@V is refused unless this program draws
version V, which the first line of the exploration shows.`,
		Example: "  simulate replay reports/storm-42\n  simulate replay reports/storm-42 --engine virtual\n  simulate replay 42",
		Args:    dirOrSeed,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.recalled(cmd.Flags(), args[0])
			if err != nil {
				return err
			}
			return f.run(cmd, c)
		},
	}
	f.register(cmd.Flags())
	f.registerJudged(cmd.Flags())
	cmd.Flags().BoolVar(&f.aimAnew, "aim-anew", false, "of a saved run: faults of owners hit the present owner, not the node of that run")
	return cmd
}

// recalled returns the run that the argument names: a saved one, or an exploration's seed.
func (f *player) recalled(fs *pflag.FlagSet, arg string) (sim.Config, error) {
	seed, err := seedOf(arg)
	switch {
	case err != nil:
		return sim.Config{}, err
	case seed != 0:
		return f.swarm(fs, seed)
	}
	if err := cmp.Or(f.saysItself(fs), f.check(fs), isSaved(fs.Name(), arg)); err != nil {
		return sim.Config{}, err
	}
	f.saved = arg
	c, err := sim.LoadRun(f.saved)
	if err != nil {
		return sim.Config{}, err
	}
	model := c.Engine == sim.EngineVirtual
	if fs.Changed("engine") {
		if c, err = c.On(f.engine); err != nil {
			return sim.Config{}, err
		}
	}
	// A run in virtual time finds the same owners again, because its history must be the same. A smaller run has other owners.
	if !f.aimAnew && !f.shrinks && !(model && c.Engine == sim.EngineVirtual) {
		if c, f.retargeted, err = c.Retargeted(f.saved); err != nil {
			return sim.Config{}, err
		}
	}
	c.NodeCmd, err = f.nodeOf(fs, c.NodeCmd)
	return c, err
}

// seedOf returns the seed that the argument names, 0 for a folder.
func seedOf(arg string) (uint64, error) {
	number, _, _ := strings.Cut(arg, "@")
	seed, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		seed = 0
	}
	if seed != 0 {
		if _, err := drawnBy(arg); err != nil {
			return 0, fmt.Errorf("seed %w", err)
		}
	}
	return seed, nil
}

// saysItself refuses flags for what a saved run contains.
func (f *player) saysItself(fs *pflag.FlagSet) (wrong error) {
	fs.Visit(func(flag *pflag.Flag) {
		how := slices.Contains([]string{
			"engine", "redis", "redis-image", "redis-password-file", "launcher", "node-image", "compose", "proxy", storeFlag,
			"report", "json", "quiet", "verbose", "no-html", "min-exercised", "confirm-real", "lua", "aim-anew",
		}, flag.Name)
		if how = how || slices.Contains(nodeFlags, flag.Name); !how && !(f.shrinks && flag.Name == "criteria") {
			wrong = fmt.Errorf("--%s: the saved run determines this: leave the flag out", flag.Name)
		}
	})
	return wrong
}

func isSaved(command, arg string) error {
	st, err := os.Stat(arg)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%q is neither the folder of a saved run nor a seed, a whole number from 1 to %d", arg, uint64(math.MaxUint64))
	case err != nil:
		return fmt.Errorf("saved run %s: %w: %w", arg, sim.ErrInvalid, err)
	case !st.IsDir():
		return fmt.Errorf("%s is a file, and not the folder of a saved run; a seed that an exploration found has a folder beside "+
			"its file, and %s takes its number too", plain.Word(arg), command)
	}
	return nil
}

// swarm draws a seed as an exploration with the same flags does.
func (f *player) swarm(fs *pflag.FlagSet, seed uint64) (sim.Config, error) {
	switch {
	case fs.Changed("seed"):
		return sim.Config{}, fmt.Errorf("--seed %d: the argument already gives the seed %d: leave --seed out", f.seed, seed)
	case fs.Changed("engine") && f.engine != sim.EngineVirtual:
		return sim.Config{}, fmt.Errorf("--engine %s: a seed is a run in virtual time; to play it on the real engine, give shrink --confirm-real",
			f.engine)
	}
	f.engine = sim.EngineVirtual
	s, err := f.given(fs)
	if err != nil {
		return sim.Config{}, err
	}
	nodeCmd := s.NodeCmd
	if f.shrinks && !sim.IsGo(nodeCmd) {
		s.NodeCmd = nil // for --confirm-real
	}
	c, plan, err := s.Swarm(seed)
	c.Plan = &plan
	if f.shrinks {
		c.NodeCmd = nodeCmd
	}
	return c, err
}

// drawnBy removes the draw version from seeds like "1-1000@1" or "42@1". It refuses any other version, whose seeds give other runs.
func drawnBy(seeds string) (string, error) {
	seeds, version, given := strings.Cut(seeds, "@")
	if given && version == "" {
		return "", fmt.Errorf("%s@: the version behind the @ is missing; this program draws version %d", seeds, sim.DrawVersion)
	}
	if given && version != strconv.Itoa(sim.DrawVersion) {
		return "", fmt.Errorf("%s@%s: version %q drew these seeds, this program draws version %d: go to a commit that draws that one",
			seeds, version, version, sim.DrawVersion)
	}
	return seeds, nil
}
