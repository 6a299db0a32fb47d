package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/criteria"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// storm has the flags of a storm: its scenario, and what replaces the scenario's values.
type storm struct {
	scenario         string
	system, topology string
	replicas         int
	nodes, sessions  int
	duration         time.Duration
	speed            float64
	seed             uint64
	ttl, renew, poll time.Duration
	faults           string
	criteria         string
	allowNodeCmd     bool // allows the node of the scenario file
}

func (f *storm) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.scenario, "scenario", "", "scenario `FILE` or built-in name (see simulate scenarios); flags override it")
	fs.StringVar(&f.system, "system", "", "what the nodes share: "+strings.Join(check.Systems(), ", "))
	fs.StringVar(&f.topology, "topology", sim.TopologySingle,
		"Redis to start: single, sentinel (a master, replicas, sentinels) or cluster (two shards with replicas, and a voting master); "+
			"on real sentinels and clusters only safety is judged")
	fs.IntVar(&f.replicas, "replicas", sim.DefaultReplicas,
		"with --topology sentinel or cluster: start `N` replicas, and configure the nodes for them; 0: two replicas that the nodes ignore")
	fs.IntVar(&f.nodes, "nodes", 0, fmt.Sprintf("start `N` nodes (default %d)", sim.DefaultNodes))
	fs.IntVar(&f.sessions, "sessions", 0, fmt.Sprintf("share `M` polling sessions (default %d)", sim.DefaultSessions))
	fs.DurationVar(&f.duration, "duration", 0, "length of storm and calm together (default 1m, at speed 1 5m)")
	fs.Float64Var(&f.speed, "speed", 0, "divide default timings and those of the scenario file by this (default 10, virtual 1)")
	fs.Uint64Var(&f.seed, "seed", 0, "seed of everything random (default: drawn and printed)")
	fs.DurationVar(&f.ttl, "ttl", 0, "lifetime of a lease without renewal (default 30s / speed)")
	fs.DurationVar(&f.renew, "renew", 0, "time between renewals (default a third of the TTL)")
	fs.DurationVar(&f.poll, "poll", 0, "time between polls of a session (default 5s / speed)")
	fs.StringVar(&f.faults, "faults", "",
		"draw only these kinds of faults, `A,B`, or all usual kinds except `-A,-B` (an unknown kind lists them)")
	fs.StringVar(&f.criteria, "criteria", "",
		"guarantees that decide the verdict, `G1,G2` (default: those that the plan can exercise, and any that breaks)")
	fs.BoolVar(&f.allowNodeCmd, "allow-node-cmd", false, "start the nodeCmd or leaseCmd of the scenario file")
}

// check refuses values that a Scenario would read as unset.
func (f *storm) check(fs *pflag.FlagSet) error {
	var wrong []error
	for _, name := range []string{"nodes", "sessions", "speed", "duration", "ttl", "renew", "poll", "seed"} {
		flag := fs.Lookup(name)
		if !flag.Changed {
			continue
		}
		if v := flag.Value.String(); v == "0" || v == "0s" || strings.HasPrefix(v, "-") {
			wrong = append(wrong, fmt.Errorf("--%s %s: must be more than zero; leave it out for the default", name, v))
		}
	}
	if fs.Changed("scenario") && f.scenario == "" {
		wrong = append(wrong, errors.New("--scenario is empty: give a file or a built-in name (simulate scenarios), or leave it out"))
	}
	if fs.Changed("system") && f.system == "" {
		wrong = append(wrong, fmt.Errorf("--system is empty: give %s, or leave it out", strings.Join(check.Systems(), ", ")))
	}
	return errors.Join(wrong...)
}

// load returns the scenario of the file, if one is given.
func (f *storm) load() (sim.Scenario, error) {
	if f.scenario == "" {
		return sim.Scenario{}, nil
	}
	return sim.Load(f.scenario)
}

// apply replaces the scenario's values by those of the given flags. The scenario's engine is set.
func (f *storm) apply(fs *pflag.FlagSet, s *sim.Scenario) error {
	set := func(name string, apply func()) {
		if fs.Changed(name) {
			apply()
		}
	}
	set("system", func() { s.System = f.system })
	set("topology", func() { s.Topology = f.topology })
	set("replicas", func() { s.Replicas = &f.replicas })
	set("nodes", func() { s.Nodes = f.nodes })
	set("sessions", func() { s.Sessions = f.sessions })
	set("speed", func() { s.Speed = f.speed })
	set("seed", func() { s.Seed = f.seed })
	set("duration", func() { s.Fixed.Duration = f.duration })
	set("ttl", func() { s.Fixed.TTL = f.ttl })
	set("renew", func() { s.Fixed.Renew = f.renew })
	set("poll", func() { s.Fixed.Poll = f.poll })
	var wrong []error
	var err error
	if fs.Changed("faults") {
		s.Plan = nil
		if s.Faults, err = fault.ParseKinds(f.faults, s.Engine == sim.EngineVirtual); err != nil {
			wrong = append(wrong, fmt.Errorf("--faults: %w", err))
		}
	}
	if fs.Changed("criteria") {
		if s.Criteria, err = criteria.Parse(f.criteria); err != nil {
			wrong = append(wrong, fmt.Errorf("--criteria: %w", err))
		}
	}
	return errors.Join(wrong...)
}
