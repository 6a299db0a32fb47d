package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/report"
)

func newReplay() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "replay DIR",
		Short: "Run the storm of a saved run again, with the same plan",
		Long: `replay runs the scenario and the plan that a run saved once more, into a folder of its own. The faults strike the
same targets at the same times; what processes, sockets and Redis make of them is real again and may differ.`,
		Example: "  simulate replay reports/storm-42",
		Args:    oneDir,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.checkRun(cmd.Flags()); err != nil {
				return err
			}
			c, err := sim.LoadRun(args[0])
			if err != nil {
				return err
			}
			c, err = f.elsewhere(cmd.Flags(), c)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("node-cmd") {
				c.NodeCmd = strings.Fields(f.nodeCmd)
			}
			f.saved = savedSum(args[0], c.Engine)
			return f.run(cmd, c)
		},
	}
	f.registerRun(cmd.Flags())
	return cmd
}

// elsewhere moves a saved run to the engine that --engine names.
func (f *flags) elsewhere(fs *pflag.FlagSet, c sim.Config) (sim.Config, error) {
	if !fs.Changed("engine") {
		return c, nil
	}
	return c.On(f.engine)
}

// savedSum is the sum of the history that a run on the engine must give again; "" where it need not.
func savedSum(dir, engine string) string {
	r, err := report.Load(dir)
	if err != nil || r.Engine != engine || r.Config.Interrupted {
		return ""
	}
	return r.Stats.HistorySHA256
}

// errOther means that a replay in virtual time was not the saved run.
var errOther = errors.New("the replay's history is not the saved one")

// compare holds the history of a replay against the saved one.
func (f *flags) compare(r sim.Result, text io.Writer) error {
	switch {
	case f.saved == "" || r.Outcome.Interrupted:
		return nil
	case f.saved == r.Outcome.SHA256:
		fmt.Fprintln(text, "  replayed:        the history is the saved one, bit by bit")
		return nil
	}
	return fmt.Errorf("%w: its sha256 is %s, saved is %s: the saved run is of another version of this program or was changed (this one is in %s)",
		errOther, r.Outcome.SHA256, f.saved, r.Dir)
}
