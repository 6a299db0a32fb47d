package main

import (
	"context"
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
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/election"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

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

// quiet returns err, or nil if the end of ctx caused err.
func quiet(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}
