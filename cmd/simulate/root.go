package main

import (
	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/internal/version"
)

func newRoot() *cobra.Command {
	var f explorer
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Break a fleet that shares leases on Redis, and judge whether its promises held",
		Long: `Start N nodes that share M polling sessions through Redis, inject a plan of faults drawn
from a seed, let everything heal, and judge each guarantee (G1 to G14).

Each node is a process behind its own proxy. A polled target records every poll that arrives. Redis is redis-server or
valkey-server from PATH, else a container, else an embedded server; --redis chooses another. Nothing else needs to be
installed or running.

Exit codes: 0 every criterion passed; 1 a guarantee failed; 2 a criterion is unknown; 3 the command line or the harness
was wrong and nothing was judged. The criteria are the guarantees of --criteria, or all that the plan can exercise.`,
		Example: `  simulate --nodes 10 --sessions 100            about a minute: the real timings divided by ten
  simulate --speed 1                            the real timings, TTL 30 s, five minutes
  simulate --faults crash,blackhole --seed 42   only these faults, the same storm each time
  simulate --engine virtual --seed 42           the same storm in virtual time: the same history, byte by byte
  simulate --engine virtual --seeds 1-10000     ten thousand drawn storms
  simulate --node-cmd "python3 node.py" --criteria G1,G2,G3
                                                anybody's node that speaks docs/node-protocol.md
  simulate --lease-cmd ./lock --scenario locks  anybody's lock library, behind docs/lease-protocol.md
  simulate --engine virtual --lease-go . --scenario locks
                                                a lock library in Go, unchanged, in virtual time`,
		Version:       version.String(),
		Args:          noArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if explores, err := f.explores(cmd.Flags()); err != nil {
				return err
			} else if explores {
				return f.explore(cmd)
			}
			s, err := f.given(cmd.Flags())
			if err != nil {
				return err
			}
			c, err := s.Resolve()
			if err != nil {
				return err
			}
			return f.run(cmd, c)
		},
	}
	f.register(cmd.Flags())
	_ = cmd.RegisterFlagCompletionFunc("scenario", completeScenarios)
	cmd.SetFlagErrorFunc(flagError)
	groupFlags(cmd)
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.AddCommand(newCheck(), newAudit(), newScenarios(), newReplay(), newShrink(), newCause(), newMerge(), newTarget(), newProbe(),
		newOpen(), newDiff(), newNewLease())
	return cmd
}
