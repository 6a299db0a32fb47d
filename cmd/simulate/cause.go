package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/sim"
)

func newCause() *cobra.Command {
	f := shrinking{player: player{shrinks: true}}
	cmd := &cobra.Command{
		Use:   "cause DIR|SEED",
		Short: "Search for the moment at which a break became inevitable, and for the fault that mattered last",
		Long: `Run many branches of a run that breaks a guarantee, in virtual time. A branch equals the run until a moment. Then all faults
end, and it continues with other random delays. The break is inevitable from the first moment whose branches all break. Then leave
out one fault at a time, the last first, until the run no longer breaks. Give a saved run, or a seed with the flags of its
exploration, as for shrink.`,
		Example: "  simulate cause reports/swarm-42\n  simulate cause reports/storm-1 --lease-go ./mylock",
		Args:    dirOrSeed,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, guarantee, err := f.toShrink(cmd, args[0])
			if err != nil {
				return err
			}
			if err := f.buildGuest(cmd, c.NodeCmd); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintln(out, "branches that break, by the moment of the storm at which their faults end:")
			cause, err := sim.FindCause(cmd.Context(), c, guarantee, f.bend(), func(m sim.Moment) {
				fmt.Fprintf(out, "  %8.3f s  %d of %d\n", m.At.Seconds(), m.Broken, m.Of)
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "\n%v\n(%d runs)\n", cause, cause.Runs)
			return nil
		},
	}
	f.register(cmd.Flags())
	return cmd
}
