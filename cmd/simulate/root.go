package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/internal/suggest"
	"github.com/leasestorm/leasestorm/internal/version"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/criteria"
	"github.com/leasestorm/leasestorm/sim/fault"
)

const redisImageVariable = "LEASESTORM_REDIS_IMAGE"

const (
	launchProcesses  = "process"
	launchContainers = "container"
)

type flags struct {
	engine, system   string
	topology         string
	replicas         int
	nodes, sessions  int
	duration         time.Duration
	speed            float64
	seed             uint64
	ttl, renew, poll time.Duration
	faults           string
	scenario         string
	criteria         string
	redis            string
	redisImage       string // image of --redis container
	ownImage         bool   // --redis-image was given
	launcher         string
	compose          string
	nodeImage        string
	passwordFile     string // file with the password of Redis
	nodeCmd          string
	leaseCmd         string
	proxies          []string // NAME=host:port
	allowNodeCmd     bool     // allows the node of the scenario file
	report           string
	json, quiet      bool
	verbose          bool
	noHTML           bool
	timeout          time.Duration
	least            int  // minimum of judged changes of each guarantee that decides
	lua              bool // run the store's scripts instead of their Go twins

	seeds, shard        string
	parallel            int
	keepGoing, resuming bool

	shrinks bool // --criteria names the guarantee that must stay broken, even of a saved run

	saved      string // folder of the run to repeat; "": a seed
	aimAnew    bool   // faults of owners hit the present owners
	retargeted int    // number of faults that hit the same nodes as in the saved run
	folder     string // folder of the run
}

func newRoot() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Break a fleet that shares leases on Redis, and judge whether its promises held",
		Long: `Start N nodes that share M polling sessions through Redis, inject a plan of faults drawn
from a seed, let everything heal, and judge each guarantee (G1 to G14).

Each node is a process behind its own proxy. A polled target records every poll that arrives. Redis is redis-server or
valkey-server from PATH, else a container, else an embedded server; --redis chooses another. Nothing else needs to be
installed or running.

Exit codes: 0 every deciding guarantee held; 1 a guarantee failed; 2 a deciding guarantee is unknown; 3 the command line
or the harness was wrong and nothing was judged.`,
		Example: `  simulate --nodes 10 --sessions 100            about a minute: the real timings divided by ten
  simulate --speed 1                            the real timings, TTL 30 s, five minutes
  simulate --faults crash,blackhole --seed 42   only these faults, the same storm each time
  simulate --engine virtual --seed 42           the same storm in virtual time: the same history, byte by byte
  simulate --engine virtual --seeds 1-10000     ten thousand drawn storms
  simulate --node-cmd "python3 node.py" --criteria G1,G2,G3
                                                anybody's node that speaks docs/node-protocol.md
  simulate --lease-cmd ./lock --scenario locks  anybody's lock library, behind docs/lease-protocol.md`,
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
			c, err := f.config(cmd.Flags())
			if err != nil {
				return err
			}
			return f.run(cmd, c)
		},
	}
	f.register(cmd.Flags())
	f.registerJudged(cmd.Flags())
	f.registerExplore(cmd.Flags())
	_ = cmd.RegisterFlagCompletionFunc("scenario", completeScenarios)
	cmd.SetFlagErrorFunc(flagError)
	groupFlags(cmd)
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.AddCommand(newCheck(), newAudit(), newScenarios(), newReplay(), newShrink(), newMerge(), newTarget(), newProbe(), newOpen(), newDiff(),
		newNewLease())
	return cmd
}

func (f *flags) register(fs *pflag.FlagSet) {
	fs.SortFlags = false
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
	f.registerRun(fs)
}

// registerRun adds the flags that run and replay share.
func (f *flags) registerRun(fs *pflag.FlagSet) {
	fs.StringVar(&f.engine, "engine", sim.EngineReal,
		"real: processes, sockets, Redis; virtual: one event loop, deterministic")
	fs.StringVar(&f.redis, "redis", "",
		"server, container, embedded or a `URL` (default: the first that works here)")
	fs.StringVar(&f.redisImage, "redis-image", cmp.Or(os.Getenv(redisImageVariable), sim.RedisImage),
		"`IMAGE` of Redis or Valkey for --redis container, pulled if missing ("+redisImageVariable+")")
	fs.StringVar(&f.launcher, "launcher", launchProcesses,
		"`KIND` of node: process, or container (each node in its own)")
	fs.StringVar(&f.compose, "compose", "",
		"storm the fleet that this compose `PROJECT` has started (docker/compose.yaml), instead of starting one")
	fs.StringVar(&f.nodeImage, "node-image", "",
		"`IMAGE` of the nodes for --launcher container (default: built from this program); runs its own command, or --node-cmd")
	fs.StringVar(&f.passwordFile, "redis-password-file", os.Getenv(redisurl.PasswordFileVariable),
		"`FILE` whose first line is the password for --redis URL ("+
			redisurl.PasswordFileVariable+"; "+redisurl.PasswordVariable+" holds the password itself)")
	fs.StringVar(&f.nodeCmd, nodeCmdFlag, "",
		"start this `COMMAND` as each node; NAME=value and quotes work as in a shell (default: the reference node)")
	fs.StringVar(&f.leaseCmd, leaseCmdFlag, "",
		"start this `COMMAND` beside each node to keep its leases (docs/lease-protocol.md); --check before it asks it before each poll")
	fs.StringArrayVar(&f.proxies, "proxy", nil,
		"reach the service `NAME=host:port` through a proxy per node, told as LEASESTORM_PROXY_NAME; network faults affect it too (repeatable)")
	fs.StringVar(&f.report, "report", "reports", "`DIR` in which the run gets a folder")
	fs.BoolVar(&f.lua, "lua", false, "virtual: run the store's Lua scripts in an interpreter: the same history, slower")
	_ = fs.MarkHidden("lua") // an error would mean that the flag does not exist
	fs.BoolVar(&f.json, "json", false, "print report.json and nothing else")
	fs.BoolVar(&f.noHTML, "no-html", false, "write no report.html")
	fs.BoolVar(&f.quiet, "quiet", false, "print the verdict only")
}

// registerJudged adds the flags of all commands that judge a run.
func (f *flags) registerJudged(fs *pflag.FlagSet) {
	fs.BoolVar(&f.verbose, "verbose", false, "print the plan, every guarantee, and the events around each break")
	fs.IntVar(&f.least, "min-exercised", 0, "report unknown (exit code 2) if a deciding guarantee was exercised fewer than `N` times")
}

func (f *flags) config(fs *pflag.FlagSet) (sim.Config, error) {
	s, err := f.given(fs)
	if err != nil {
		return sim.Config{}, err
	}
	return s.Resolve()
}

// given returns the scenario of the file and the flags. Values that neither gives stay unset.
func (f *flags) given(fs *pflag.FlagSet) (sim.Scenario, error) {
	wrong := []error{f.check(fs)}
	var s sim.Scenario
	var err error
	if f.scenario != "" {
		if s, err = sim.Load(f.scenario); err != nil {
			return sim.Scenario{}, err
		}
	}
	set := func(name string, apply func()) {
		if fs.Changed(name) {
			apply()
		}
	}
	set("engine", func() { s.Engine = f.engine })
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
	if s.NodeCmd, err = f.nodeOf(fs, s.NodeCmd); err != nil {
		wrong = append(wrong, err)
	}
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
	return s, errors.Join(wrong...)
}

// check refuses values that a Scenario would read as unset, and invalid engines.
func (f *flags) check(fs *pflag.FlagSet) error {
	var wrong []error
	for _, name := range []string{"nodes", "sessions", "speed", "duration", "ttl", "renew", "poll", "seed"} {
		flag := fs.Lookup(name)
		if flag == nil || !flag.Changed {
			continue
		}
		if v := flag.Value.String(); v == "0" || v == "0s" || strings.HasPrefix(v, "-") {
			wrong = append(wrong, fmt.Errorf("--%s %s: must be more than zero; leave it out for the default", name, v))
		}
	}
	if fs.Changed("scenario") && f.scenario == "" {
		wrong = append(wrong, errors.New("--scenario is empty: give a file or a built-in name (simulate scenarios), or leave it out"))
	}
	if system := fs.Lookup("system"); system != nil && system.Changed && f.system == "" {
		wrong = append(wrong, fmt.Errorf("--system is empty: give %s, or leave it out", strings.Join(check.Systems(), ", ")))
	}
	return errors.Join(append(wrong, f.checkRun(fs))...)
}

// checkCompose refuses flags for parts that a running fleet already has.
func (f *flags) checkCompose(fs *pflag.FlagSet) error {
	if strings.TrimSpace(f.compose) == "" {
		return errors.New("--compose is empty: give the project, which is \"docker\" unless it was given another name")
	}
	if strings.ContainsAny(f.compose, "/.") {
		return fmt.Errorf("--compose %q: give the project, and not its file: it is \"docker\" for docker/compose.yaml", f.compose)
	}
	for _, own := range []string{"redis", "redis-image", "redis-password-file", "launcher", "node-image", nodeCmdFlag, leaseCmdFlag, "proxy"} {
		if fs.Changed(own) {
			return fmt.Errorf("--compose with --%s: the running fleet determines this: leave the flag out", own)
		}
	}
	if f.shrinks || fs.Changed("seeds") {
		return errors.New("--compose: a compose fleet runs on the real engine only: leave it out")
	}
	return nil
}

func (f *flags) checkRun(fs *pflag.FlagSet) error {
	var wrong []error
	if fs.Changed("min-exercised") && f.least < 1 {
		wrong = append(wrong, fmt.Errorf("--min-exercised %d: must be more than zero; without the flag, once is enough", f.least))
	}
	if f.engine != sim.EngineReal && f.engine != sim.EngineVirtual {
		wrong = append(wrong, fmt.Errorf("--engine %q is unknown: give %s or %s", f.engine, sim.EngineReal, sim.EngineVirtual))
	}
	if fs.Changed("redis") && strings.TrimSpace(f.redis) == "" {
		wrong = append(wrong, errors.New("--redis is empty: give server, container, embedded or a URL, or leave it out"))
	}
	if fs.Changed("redis-password-file") && !strings.Contains(f.redis, ":") {
		wrong = append(wrong, errors.New("--redis-password-file goes with --redis URL only"))
	}
	switch {
	case f.launcher != launchProcesses && f.launcher != launchContainers:
		wrong = append(wrong, fmt.Errorf("--launcher %q is unknown: give %s or %s", f.launcher, launchProcesses, launchContainers))
	case fs.Changed("node-image") && f.launcher != launchContainers:
		wrong = append(wrong, errors.New("--node-image goes with --launcher container only"))
	case fs.Changed("node-image") && strings.TrimSpace(f.nodeImage) == "":
		wrong = append(wrong, errors.New("--node-image is empty: give an image, or leave it out for the reference node"))
	}
	if fs.Changed("compose") {
		wrong = append(wrong, f.checkCompose(fs))
	}
	f.ownImage = fs.Changed("redis-image")
	switch {
	case !f.ownImage:
	case strings.TrimSpace(f.redisImage) == "":
		wrong = append(wrong, errors.New("--redis-image is empty: give an image, or leave it out for "+sim.RedisImage))
	case f.redis != "" && f.redis != "container":
		wrong = append(wrong, errors.New("--redis-image goes with --redis container only"))
	}
	if f.report == "" {
		wrong = append(wrong, errors.New("--report is empty: give a folder, or leave it out for reports/"))
	}
	_, err := f.redisChoice()
	return errors.Join(append(wrong, err)...)
}

// flagError turns pflag's errors into one line with the allowed values.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		return fmt.Errorf("--%s %q: give %s", value.GetFlag().Name, value.GetValue(), wanted(value.GetFlag()))
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: %s%s --help lists the flags", err, suggest.Flag(cmd, err), cmd.CommandPath())
	}
	return err
}

func wanted(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int":
		return "a whole number, such as 10"
	case "uint64":
		return fmt.Sprintf("a whole number from 1 to %d, such as 10", uint64(math.MaxUint64))
	case "float64":
		return "a number above zero, such as 10 or 0.5"
	case "duration":
		return "a duration with its unit, such as 30s or 500ms, of a day at most"
	case "bool":
		return "true or false"
	}
	return "a " + f.Value.Type()
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	meant := suggest.Command(cmd.Root(), args[0])
	if meant == "" {
		var known []string
		for _, c := range cmd.Root().Commands() {
			if c.IsAvailableCommand() {
				known = append(known, c.Name())
			}
		}
		meant = "commands are " + strings.Join(known, ", ") + "; "
	}
	return fmt.Errorf("unknown command or argument %q: %s%s --help lists the flags", args[0], meant, cmd.CommandPath())
}
