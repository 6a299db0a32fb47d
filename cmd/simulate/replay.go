package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/sim"
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
			if cmd.Flags().Changed("node-cmd") {
				c.NodeCmd = strings.Fields(f.nodeCmd)
			}
			return f.run(cmd, c)
		},
	}
	f.registerRun(cmd.Flags())
	return cmd
}
