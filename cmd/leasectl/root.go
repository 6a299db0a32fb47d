package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasestorm/leasestorm/internal/redisflags"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/suggest"
	"github.com/leasestorm/leasestorm/internal/version"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/election"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
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

// The system determines the keys of leases.
const (
	systemLeases  = "leases"
	systemPolling = "polling"
)

// fleets has the default configuration of each system.
var fleets = map[string]admin.Fleet{
	systemLeases:  lease.Config{},
	systemPolling: lease.ManagerConfig{},
	"election":    election.Config{},
	"sovereign":   election.Sovereign(), // as of cmd/node
	"intents":     store.Options{},
	"adr003":      store.Options{Names: intent.ADR003()}, // as of cmd/node
}

var systems = slices.Sorted(maps.Keys(fleets))

type flags struct {
	redisflags.Settings

	system                                     string
	leasePrefix, nodePrefix, epochKey, channel string
	leaders                                    []string
	replicas                                   int
	timeout                                    time.Duration
	declared                                   time.Duration // the quarantine of bootstrap; 0: the default
	json                                       bool
}

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

func (f *flags) register(fs *pflag.FlagSet, getenv func(string) string) {
	fs.SortFlags = false
	f.Register(fs, getenv)
	fs.StringVar(&f.system, "system", systemLeases, "which keys leases have: "+strings.Join(systems, ", "))
	fs.StringSliceVar(&f.leaders, "leader-key", nil, "leader keys of the elections, if not the default of --system")
	fs.StringVar(&f.leasePrefix, "lease-prefix", "", "Config.LeasePrefix of the instances, if not the default of --system")
	fs.StringVar(&f.nodePrefix, "node-prefix", "", "Config.NodePrefix, or an election's HeartbeatPrefix, likewise")
	fs.StringVar(&f.epochKey, "epoch-key", "", "Config.EpochKey, likewise")
	fs.StringVar(&f.channel, "channel", "", "Config.Channel, likewise")
	fs.IntVar(&f.replicas, "replicas", 0, "Config.Replicas of the instances")
	fs.DurationVar(&f.timeout, "timeout", redisstore.DefaultOpTimeout, "timeout of each request to Redis")
	fs.BoolVar(&f.json, "json", false, "write JSON (docs/leasectl.md has the fields)")
}

type group struct {
	*redisstore.Store
	client  *redis.Client
	leaders []string // leader keys of elections; nil: leases are found by their prefix
}

func (g *group) close() {
	_ = g.Close()
	_ = g.client.Close()
}

// open returns the group of the flags. It does not connect yet.
func (f *flags) open(cmd *cobra.Command) (*group, error) {
	usage := func(err error) error { return fmt.Errorf("%w: %w", errUsage, err) }
	if !slices.Contains(systems, f.system) {
		return nil, usage(fmt.Errorf("--system %q is unknown: give one of %s", f.system, strings.Join(systems, ", ")))
	}
	if f.timeout < time.Millisecond {
		return nil, usage(fmt.Errorf("--timeout %v: at least 1ms", f.timeout))
	}
	if err := f.Complete(); err != nil {
		return nil, usage(err)
	}
	client, err := f.Client("leasectl", cmd.ErrOrStderr())
	if err != nil {
		return nil, usage(err)
	}
	g := &group{client: client}
	options, leaders, err := f.options()
	if err == nil {
		g.Store, err = redisstore.New(client, options)
	}
	if err != nil {
		_ = client.Close()
		return nil, usage(err)
	}
	g.leaders = leaders
	for _, key := range leaders {
		if err := g.CheckLease(key); err != nil {
			g.close()
			return nil, usage(fmt.Errorf("--leader-key: %w", err))
		}
	}
	return g, nil
}

// options returns the names of the flags' fleet, and the leader keys of its elections.
func (f *flags) options() (o redisstore.Options, leaders []string, err error) {
	o, leaders, err = fleets[f.system].Shared()
	switch {
	case err != nil:
		return o, nil, err
	case leaders != nil && f.leasePrefix != "":
		return o, nil, fmt.Errorf("--lease-prefix does not apply to --system %s: give --leader-key instead", f.system)
	case leaders != nil && f.leaders != nil:
		leaders = f.leaders
	}
	o.OpTimeout, o.PoolSize, o.Replicas, o.Quarantine = f.timeout, 1, f.replicas, f.declared
	for _, own := range []struct {
		flag string
		to   *string
	}{{f.leasePrefix, &o.LeasePrefix}, {f.nodePrefix, &o.NodePrefix}, {f.epochKey, &o.EpochKey}, {f.channel, &o.Channel}} {
		if own.flag != "" {
			*own.to = own.flag
		}
	}
	return o, leaders, nil
}

func (f *flags) with(run func(cmd *cobra.Command, g *group, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		g, err := f.open(cmd)
		if err != nil {
			return err
		}
		defer g.close()
		return run(cmd, g, args)
	}
}

func writeJSON(cmd *cobra.Command, v any) error {
	return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%w: unknown command or argument %q: %s%s --help lists the commands", errUsage, args[0],
		suggest.Command(cmd, args[0]), cmd.Root().Name())
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
