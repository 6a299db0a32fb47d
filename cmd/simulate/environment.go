package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/guest"
	"github.com/leasestorm/leasestorm/sim/real"
)

const redisImageVariable = "LEASESTORM_REDIS_IMAGE"

const (
	launchProcesses  = "process"
	launchContainers = "container"
)

// environment has the flags of where a storm runs: its engine, Redis and nodes.
type environment struct {
	engine       string
	redis        string
	redisImage   string // image of --redis container
	ownImage     bool   // --redis-image was given
	launcher     string
	compose      string
	nodeImage    string
	passwordFile string // file with the password of Redis
	nodeCmd      string
	leaseCmd     string
	nodeGo       string
	leaseGo      string
	starter      guest.Starter // of the program of nodeGo or leaseGo; nil: not built
	proxies      []string      // NAME=host:port
	commands     []string      // NAME=COMMAND of stores
	lua          bool          // run the store's scripts instead of their Go twins
}

func (f *environment) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.engine, "engine", sim.EngineReal,
		"real: processes, sockets, Redis; virtual: one event loop, deterministic")
	fs.StringVar(&f.redis, "redis", "",
		"server, container, embedded or a `URL` (default: the first that works here)")
	fs.StringVar(&f.redisImage, "redis-image", cmp.Or(os.Getenv(redisImageVariable), real.RedisImage),
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
	fs.StringVar(&f.nodeGo, nodeGoFlag, "",
		"virtual: build the Go program of this `FOLDER` and run it, unchanged, as each node; NAME=value before it sets variables")
	fs.StringVar(&f.leaseGo, leaseGoFlag, "",
		"virtual: build the Go adapter of this `FOLDER` or file and run it in each node, as --lease-cmd does")
	fs.StringArrayVar(&f.proxies, "proxy", nil,
		"reach the service `NAME=host:port` through a proxy per node, told as LEASESTORM_PROXY_NAME; network faults affect it too (repeatable)")
	fs.StringArrayVar(&f.commands, storeFlag, nil,
		"start a store, `NAME=COMMAND`, that serves $PORT from the folder $DATA: like --proxy, and suffers the outages of Redis (repeatable)")
	fs.BoolVar(&f.lua, "lua", false, "virtual: run the store's Lua scripts in an interpreter: the same history, slower")
	_ = fs.MarkHidden("lua") // an error would mean that the flag does not exist
}

func (f *environment) check(fs *pflag.FlagSet) error {
	var wrong []error
	if f.engine != sim.EngineReal && f.engine != sim.EngineVirtual {
		wrong = append(wrong, fmt.Errorf("--engine %q is unknown: give %s or %s", f.engine, sim.EngineReal, sim.EngineVirtual))
	}
	wrong = append(wrong, f.checkNodes(fs))
	if fs.Changed("compose") {
		wrong = append(wrong, f.checkCompose(fs))
	}
	return errors.Join(append(wrong, f.checkRedis(fs))...)
}

func (f *environment) checkNodes(fs *pflag.FlagSet) error {
	switch {
	case f.launcher != launchProcesses && f.launcher != launchContainers:
		return fmt.Errorf("--launcher %q is unknown: give %s or %s", f.launcher, launchProcesses, launchContainers)
	case fs.Changed("node-image") && f.launcher != launchContainers:
		return errors.New("--node-image goes with --launcher container only")
	case fs.Changed("node-image") && strings.TrimSpace(f.nodeImage) == "":
		return errors.New("--node-image is empty: give an image, or leave it out for the reference node")
	}
	return nil
}

func (f *environment) checkRedis(fs *pflag.FlagSet) error {
	var wrong []error
	if fs.Changed("redis") && strings.TrimSpace(f.redis) == "" {
		wrong = append(wrong, errors.New("--redis is empty: give server, container, embedded or a URL, or leave it out"))
	}
	if fs.Changed("redis-password-file") && !strings.Contains(f.redis, ":") {
		wrong = append(wrong, errors.New("--redis-password-file goes with --redis URL only"))
	}
	f.ownImage = fs.Changed("redis-image")
	switch {
	case !f.ownImage:
	case strings.TrimSpace(f.redisImage) == "":
		wrong = append(wrong, errors.New("--redis-image is empty: give an image, or leave it out for "+real.RedisImage))
	case f.redis != "" && f.redis != "container":
		wrong = append(wrong, errors.New("--redis-image goes with --redis container only"))
	}
	_, err := f.redisChoice()
	return errors.Join(append(wrong, err)...)
}

// checkCompose refuses flags for parts that a running fleet already has.
func (f *environment) checkCompose(fs *pflag.FlagSet) error {
	if strings.TrimSpace(f.compose) == "" {
		return errors.New("--compose is empty: give the project, which is \"docker\" unless it was given another name")
	}
	if strings.ContainsAny(f.compose, "/.") {
		return fmt.Errorf("--compose %q: give the project, and not its file: it is \"docker\" for docker/compose.yaml", f.compose)
	}
	own := []string{"redis", "redis-image", "redis-password-file", "launcher", "node-image", "proxy", storeFlag}
	for _, own := range slices.Concat(own, nodeFlags) {
		if fs.Changed(own) {
			return fmt.Errorf("--compose with --%s: the running fleet determines this: leave the flag out", own)
		}
	}
	if fs.Changed("seeds") {
		return errNoFleet
	}
	return nil
}

var errNoFleet = errors.New("--compose: a compose fleet runs on the real engine only: leave it out")

// redisChoice parses --redis and reads its password.
func (f *environment) redisChoice() (real.RedisChoice, error) {
	switch s := f.redis; {
	case f.compose != "":
		return real.RedisChoice{Kind: sim.RedisCompose, Project: f.compose}, nil
	case s == "" || s == "server" || s == "container" || s == "embedded":
		return real.RedisChoice{Kind: s, Image: f.redisImage}, nil
	case strings.Contains(s, "://"):
		password, err := redisurl.Password(f.passwordFile, os.Getenv(redisurl.PasswordVariable))
		if err != nil {
			return real.RedisChoice{}, err
		}
		if s, err = redisurl.With(s, password); err != nil {
			return real.RedisChoice{}, fmt.Errorf("--redis is %w", err)
		}
		return real.RedisChoice{Kind: "url", URL: s}, nil
	}
	return real.RedisChoice{}, fmt.Errorf("--redis %s: give server, container, embedded or a URL such as redis://localhost:6379",
		f.shownRedis())
}

var address = regexp.MustCompile(`^[a-zA-Z0-9.-]+(:[0-9]+)?$`)

// shownRedis returns --redis for a message: a URL without its password. If it is neither a URL nor an address, it is hidden.
func (f *environment) shownRedis() string {
	if address.MatchString(f.redis) {
		return strconv.Quote(f.redis)
	}
	return redisurl.Show(f.redis)
}

func (f *environment) newEngine(c sim.Config, pulling func(image string)) (sim.Engine, error) {
	redis, err := f.redisChoice()
	if err != nil {
		return nil, err
	}
	if f.compose != "" && (c.Engine != sim.EngineReal || c.System != sim.SystemPolling || len(c.NodeCmd) > 0) {
		return nil, fmt.Errorf("--compose %s always runs real pollers: it cannot be combined with another engine, system or node", f.compose)
	}
	if c.Engine == sim.EngineVirtual {
		return sim.NewVirtual(f.bend()), f.ofVirtual()
	}
	if f.lua {
		return nil, errors.New("--lua: the real engine always runs the scripts: leave it out, or give --engine virtual")
	}
	launch, err := f.newLauncher(c)
	if err != nil {
		return nil, err
	}
	if redis.Servers, redis.Cluster = c.Servers(), c.Topology == sim.TopologyCluster; redis.Servers > 0 {
		if err := f.ownServers(c.Topology); err != nil {
			return nil, err
		}
	}
	redis.Pulling, launch.Pulling = pulling, pulling
	return sim.NewReal(redis, launch), nil
}

// ofVirtual refuses flags that the virtual engine has no use for.
func (f *environment) ofVirtual() error {
	switch {
	case f.launcher == launchContainers:
		return errors.New("--launcher container: the virtual engine starts no processes: leave it out")
	case f.ownImage:
		return fmt.Errorf("--redis-image %s: the virtual engine has a Redis of its own: leave it out", f.redisImage)
	case f.redis != "":
		return fmt.Errorf("--redis %s: the virtual engine has a Redis of its own: leave it out", f.shownRedis())
	case len(f.proxies)+len(f.commands) > 0:
		return errors.New("--proxy, --store: the virtual engine has no network: leave them out")
	}
	return nil
}

// nodeArg makes this program the reference node, so that one binary is enough for a storm.
const nodeArg = "__node"

// leaseArg makes this program the node of --lease-cmd.
const leaseArg = "__lease"

func (f *environment) newLauncher(c sim.Config) (sim.Launcher, error) {
	self, err := os.Executable()
	if err != nil {
		return sim.Launcher{}, fmt.Errorf("find this program, to start it as a node: %w", err)
	}
	stores, err := f.stores(c.Topology)
	if err != nil {
		return sim.Launcher{}, err
	}
	launch := sim.Launcher{
		Node: []string{self, nodeArg}, Lease: []string{self, leaseArg}, Stores: stores, Containers: f.launcher == launchContainers,
		Image: f.nodeImage,
	}
	if launch.Containers && len(c.NodeCmd) > 0 && launch.Image == "" {
		return sim.Launcher{}, errors.New("--node-cmd with --launcher container: give --node-image too, the image that has the program")
	}
	return launch, nil
}

var storeName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

const storeFlag = "store"

// stores parses --proxy and --store.
func (f *environment) stores(topology string) (all []real.Store, err error) {
	for _, p := range f.proxies {
		name, addr, _ := strings.Cut(p, "=")
		if !storeName.MatchString(name) || listenable(addr) != nil {
			return nil, fmt.Errorf("--proxy %q: must be NAME=host:port, such as POSTGRES=127.0.0.1:5432", p)
		}
		all = append(all, real.Store{Name: name, Addr: addr})
	}
	for _, c := range f.commands {
		name, text, _ := strings.Cut(c, "=")
		if !storeName.MatchString(name) {
			return nil, fmt.Errorf("--store %q: must be NAME=COMMAND, such as POSTGRES='sh postgres.sh'", c)
		}
		command, err := splitCommand(storeFlag, text)
		if err != nil {
			return nil, err
		}
		all = append(all, real.Store{Name: name, Command: append([]string{"env"}, command...)}) // env takes NAME=value
	}
	if len(all) > 0 && topology != sim.TopologySingle {
		return nil, fmt.Errorf("--proxy or --store with --topology %s: leave one of them out", topology)
	}
	return all, nil
}

// ownServers refuses flags that contradict several servers, which run as processes of this program.
func (f *environment) ownServers(topology string) error {
	switch {
	case f.launcher == launchContainers:
		return fmt.Errorf("--launcher container with --topology %s: containers cannot reach the servers, which have addresses of this machine: "+
			"leave it out", topology)
	case f.compose != "":
		return fmt.Errorf("--compose %s with --topology %s: its Redis is one server: leave one of them out", f.compose, topology)
	case f.redis != "" && f.redis != "server":
		return fmt.Errorf("--redis %s with --topology %s: the simulator starts all servers itself: leave --redis out",
			f.shownRedis(), topology)
	}
	return nil
}

// bugVariable selects a deliberate bug of nodes such as scenarios/testdata/foreign_node.py.
const bugVariable = "BUG"

// withBug adds bugVariable from simulate's own environment to the node's command. The run must save it: a replay without it would pass.
func (f *environment) withBug(command []string) []string {
	value, set := os.LookupEnv(bugVariable)
	env, argv := sim.NodeCommand(command)
	named := slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, bugVariable+"=") })
	if !set || named || len(argv) == 0 || f.launcher == launchContainers { // a container gets only the variables of the command
		return command
	}
	return append([]string{bugVariable + "=" + value}, command...)
}

// replayFlags returns the flags that repeat this run, each after a blank: values missing from its folder or different from this machine's
// defaults. None contains a password.
func (f *environment) replayFlags(r sim.Result) string {
	var b strings.Builder
	add := func(name, value string) {
		if value != "" {
			b.WriteString(" --" + name + " " + plain.Word(value))
		}
	}
	switch {
	case r.Config.Engine == sim.EngineVirtual:
		b.WriteString(f.luaFlag())
	case f.compose != "":
		add("compose", f.compose)
	case strings.Contains(f.redis, "://"):
		add("redis", redisurl.Show(f.redis))
		add("redis-password-file", f.passwordFile)
	default:
		add("redis", cmp.Or(f.redis, r.Report.Redis.Chosen()))
		if r.Report.Redis.Kind == "container" && f.redisImage != real.RedisImage {
			add("redis-image", f.redisImage)
		}
	}
	if f.launcher == launchContainers {
		add("launcher", f.launcher)
		add("node-image", f.nodeImage)
	}
	for _, p := range f.proxies {
		add("proxy", p)
	}
	for _, c := range f.commands {
		add(storeFlag, c)
	}
	return b.String() + nodeFlag(r.Config.NodeCmd)
}

func (f *environment) luaFlag() string {
	if f.lua {
		return " --lua"
	}
	return ""
}

// startable refuses a command that cannot be started as a node. In a container, the image must have the program.
func (f *environment) startable(command []string) error {
	argv := sim.StartedBy(command)
	_, isLease := sim.LeaseAdapter(command)
	switch {
	case isLease && f.launcher == launchContainers:
		return errors.New("--lease-cmd with --launcher container: adapters run as processes of this machine: leave one of them out")
	case len(argv) == 0 || sim.IsGo(command) || f.launcher == launchContainers: // Resolve reports a command without a program
		return nil
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		flag, words := flagOf(command)
		return fmt.Errorf("the node %s cannot be started: %w: nothing was started (flag --%s)", quoted(words), err, flag)
	}
	return nil
}
