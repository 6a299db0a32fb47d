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
		Long: `Declare that no instance trusts a lease of this Redis any more, so that Redis grants leases at once. Without bootstrap, the
first instances wait for a quarantine, as after a loss of data. bootstrap fails while a lease or a heartbeat exists, and if the group
has agreed on another quarantine. Do not run it at every start. Never run it on a Redis that has lost its data: running instances may
trust their leases for up to a TTL longer, while others acquire the same leases at once.`,
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
				fmt.Fprintf(cmd.OutOrStdout(), "the first deployment of %s is declared: Redis grants leases now, which waiting instances "+
					"notice within a third of a TTL; the quarantine is %v, so no instance may have a longer TTL\n", f.system, length)
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
again after the longer of both quarantines; owners keep their leases. The command fails while a lease or a heartbeat has a longer TTL
than the new quarantine.`,
		Args: atMostOne,
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
		return fmt.Errorf("%w: %s takes one duration, as in \"%s 30s\"", errUsage, cmd.Name(), cmd.CommandPath())
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
	_, err = fmt.Fprintf(out, "the quarantine was %v and is now %v; owners keep their leases, and free leases are granted "+
		"again in %v: restart no instance before that\n", before, length, max(before, length))
	return err
}

func lengthOf(text string) (time.Duration, error) {
	length, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is no duration such as 30s", errUsage, text)
	}
	if length < lease.TTLMin || length > lease.TTLMax {
		return 0, fmt.Errorf("%w: a quarantine of %v; it must be %v to %v", errUsage, length, lease.TTLMin, lease.TTLMax)
	}
	return length, nil
}
