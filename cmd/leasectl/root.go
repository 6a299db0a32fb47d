package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/internal/suggest"
	"github.com/leasestorm/leasestorm/internal/version"
)

const about = `Show who owns which lease, check a Redis that holds leases, and ask owners to release leases.

status, watch and check change nothing. release asks the owner to release a lease; if it does not, release says when the lease expires
or which instance to stop. Nothing that leasectl does gives a lease two owners, except bootstrap on a Redis that has lost its data.

Exit codes:
  0  fine
  1  check found a problem, status or watch shows a doubtful lease, release could not release a lease, or the data in Redis forbids the
     command (a key of another format; a lease or a heartbeat that exists at bootstrap, or outlives a shorter quarantine)
  2  Redis cannot be reached or refuses the command (password, ACL, read-only replica), or the server is no Redis
  3  bad input: an unknown flag, a name that no lease can have, a fence that is no longer current; nothing was done

These variables also say where Redis is: LEASESTORM_REDIS_URL, LEASESTORM_REDIS_PASSWORD(_FILE), LEASESTORM_SENTINELS,
LEASESTORM_MASTER_NAME. The password is never printed.`

func newRoot(getenv func(string) string) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "leasectl",
		Short: "Show who owns which lease on Redis, find problems, and ask owners to release leases",
		Long:  about,
		Example: `  leasectl status --redis redis://127.0.0.1:6379     owners, fences, TTLs, epoch, instances, doubtful leases
  leasectl watch                                     each change of them
  leasectl check --replicas 2                        what is wrong, its consequence, and the command that mends it
  leasectl release nightly-report
  leasectl --system polling status                   the sessions of managers and pollers
  leasectl --system election status                  the leader of an election`,
		Version:       version.String(),
		Args:          noArgs,
		SilenceErrors: true,
		SilenceUsage:  true,

		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f.register(cmd.PersistentFlags(), getenv)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: %w: %s%s --help lists the flags", errUsage, err, suggest.Flag(cmd, err), cmd.CommandPath())
	})
	_ = cmd.RegisterFlagCompletionFunc("system", cobra.FixedCompletions(systems, cobra.ShellCompDirectiveNoFileComp))
	cmd.AddCommand(newStatus(&f), newWatch(&f), newCheck(&f), newRelease(&f), newBootstrap(&f), newQuarantine(&f))
	return cmd
}
