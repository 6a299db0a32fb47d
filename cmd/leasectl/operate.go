package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/lease"
)

func newBootstrap(f *flags) *cobra.Command {
	quarantine := lease.DefaultTTL.String()
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Declare the first deployment on an empty Redis, once",
		Long: `Declare that nobody can still believe in a lease of this Redis, so that leases are granted at once. Without it, the first
instances wait for a quarantine, as after a loss of data. bootstrap is refused while a lease or a heartbeat lives, and if the group has
agreed on another quarantine. Never call it at every start, nor on a Redis that has lost its data: running instances may believe in
their leases for up to a TTL more, while others acquire them at once: two owners.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			length, err := lengthOf(quarantine)
			if err != nil {
				return err
			}
			f.declared = length
			return f.with(func(cmd *cobra.Command, g *group, _ []string) error {
				if err := g.Bootstrap(cmd.Context(), g.leaders...); err != nil {
					return err
				}
				if f.json {
					return writeJSON(cmd, map[string]any{"bootstrapped": true, "quarantineMs": length.Milliseconds()})
				}
				fmt.Fprintf(cmd.OutOrStdout(), "the first deployment of %s is declared: leases are granted now, and to waiting instances "+
					"within a third of a TTL; the quarantine is %v, for TTLs up to that\n", f.system, length)
				return nil
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&quarantine, "quarantine", quarantine, "the longest TTL of any instance")
	return cmd
}

func newQuarantine(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "quarantine [LENGTH]",
		Short: "Show, or change, how long nothing is granted after Redis lost its data",
		Long: `Show or change the quarantine: at least the longest TTL of any instance. To give a fleet a longer TTL, raise the quarantine,
wait until free leases are granted again, then restart the instances. For a shorter TTL, restart them first. Free leases are granted
again after the longer of both quarantines; owned leases stay. Refused while a lease or a heartbeat lives longer than the new one.`,
		Args: cobra.MatchAll(atMostOne),
		RunE: func(cmd *cobra.Command, args []string) error {
			var length time.Duration
			if len(args) == 1 {
				var err error
				if length, err = lengthOf(args[0]); err != nil {
					return err
				}
			}
			return f.with(func(cmd *cobra.Command, g *group, _ []string) error { return f.quarantine(cmd, g, length) })(cmd, args)
		},
	}
}

func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%w: %s takes one length, as in \"%s 30s\"", errUsage, cmd.Name(), cmd.CommandPath())
	}
	return nil
}

func (f *flags) quarantine(cmd *cobra.Command, g *group, length time.Duration) error {
	out := cmd.OutOrStdout()
	if length == 0 {
		now, err := g.Group(cmd.Context())
		if err != nil {
			return err
		}
		if f.json {
			return writeJSON(cmd, map[string]any{"quarantineMs": now.Agreed.Milliseconds(), "quarantineLeftMs": now.Left.Milliseconds()})
		}
		fmt.Fprintln(out, "quarantine:", quarantineText(&now))
		return nil
	}
	before, err := g.SetQuarantine(cmd.Context(), length, g.leaders...)
	if err != nil {
		return err
	}
	if f.json {
		return writeJSON(cmd, map[string]any{"quarantineMs": length.Milliseconds(), "beforeMs": before.Milliseconds()})
	}
	_, err = fmt.Fprintf(out, "the quarantine was %v and is %v; owned leases stay, free leases are granted again in %v: "+
		"restart no instance before\n", before, length, max(before, length))
	return err
}
