package sim

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/report"
	"github.com/leasestorm/leasestorm/sim/timing"
)

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// variable matches a word that sets an environment variable.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// NodeCommand splits a NodeCmd into leading environment variables and the program with its arguments.
func NodeCommand(words []string) (env, argv []string) {
	n := slices.IndexFunc(words, func(w string) bool { return !variable.MatchString(w) })
	if n < 0 {
		n = len(words)
	}
	return slices.Clone(words[:n]), words[n:]
}

func programOf(words []string) []string {
	_, argv := NodeCommand(words)
	return argv
}

// NodesOf returns the NodeCmd of a kind of nodes (report.LeaseNode, …) with these words: NAME=value …, options, program and arguments.
func NodesOf(kind string, words []string) []string {
	env, argv := NodeCommand(words)
	return slices.Concat(env, []string{kind}, argv)
}

// LeaseNode returns the NodeCmd of nodes that leave their leases to an adapter.
func LeaseNode(adapter []string) []string { return NodesOf(report.LeaseNode, adapter) }

// KindOf returns what NodesOf got; "" is the kind of a program.
func KindOf(nodeCmd []string) (kind string, words []string) { return report.NodeKind(nodeCmd) }

// IsGo reports whether the nodes are built from a Go program, for virtual time.
func IsGo(nodeCmd []string) bool {
	kind, _ := KindOf(nodeCmd)
	return kind == report.GoNode || kind == report.GoLease
}

// LeaseAdapter returns the words of nodes that leave their leases to an adapter, or false for other nodes.
func LeaseAdapter(nodeCmd []string) (adapter []string, ok bool) {
	kind, words := KindOf(nodeCmd)
	return words, kind == report.LeaseNode
}

// StartedBy returns the program with its arguments that a NodeCmd starts: the node, or the adapter of its leases.
func StartedBy(nodeCmd []string) []string {
	kind, words := KindOf(nodeCmd)
	argv := programOf(words)
	for kind != "" && len(argv) > 0 && strings.HasPrefix(argv[0], "--") {
		argv = argv[1:]
	}
	return argv
}

// checkEngine refuses unknown engines, and settings that the chosen engine lacks.
func (c Config) checkEngine() error {
	kind, _ := KindOf(c.NodeCmd)
	switch {
	case c.Engine != EngineReal && c.Engine != EngineVirtual:
		return wrong("engine", "%q: unknown engine: choose from %s, %s (flag --engine)", c.Engine, EngineReal, EngineVirtual)
	case len(c.NodeCmd) > 0 && len(StartedBy(c.NodeCmd)) == 0:
		return wrong("nodeCmd", "%q names no program to start (flag --node-cmd)", c.NodeCmd)
	case c.onVirtual() && len(c.NodeCmd) > 0 && !IsGo(c.NodeCmd):
		return wrong("nodeCmd", "the virtual engine runs our rules or a Go program, and starts no program (flags --node-go, --lease-go)")
	case !c.onVirtual() && IsGo(c.NodeCmd):
		return wrong("nodeCmd", "a Go program runs in virtual time: add engine: virtual (flag --engine)")
	case kind == report.GoNode && (c.System == SystemIntents || c.Topology == TopologyCluster):
		return wrong("nodeCmd", "a Go program polls or elects, on one Redis or with sentinels: use another system or topology (flag --node-go)")
	case kind == report.GoLease && (c.System != SystemPolling || c.Topology == TopologyCluster):
		return wrong("leaseCmd", "an adapter keeps leases of polling, on one Redis or with sentinels: leave out system, and topology: %s "+
			"(flag --lease-go)", TopologyCluster)
	case kind == report.LeaseNode && (c.System != SystemPolling || c.Topology != TopologySingle):
		return wrong("leaseCmd", "an adapter keeps leases of polling on one Redis: leave out system and topology (flag --lease-cmd)")
	case !c.onVirtual() && c.Virtual != (Virtual{}):
		return wrong("virtual", "these are the virtual engine's surroundings: add engine: virtual (flag --engine)")
	}
	return c.checkTopology()
}

func (c Config) checkCounts() error {
	nodesMax := NodesMax
	if c.onVirtual() {
		nodesMax = NodesMaxVirtual
	}
	switch {
	case !nameForm.MatchString(c.Name):
		return wrong("name", "%q: use up to 64 of a-z, 0-9 and -, not - first", c.Name)
	case c.APILeases != "" && !slices.Contains([]string{APILeasesOff, APILeasesOn, APILeasesMixed}, c.APILeases):
		return wrong("apiLeases", "%q: choose from %s, %s, %s", c.APILeases, APILeasesOff, APILeasesOn, APILeasesMixed)
	case c.APILeases != "" && c.System != SystemIntents:
		return wrong("apiLeases", "only APIs of intents take leases: add system: %s (flag --system)", SystemIntents)
	case c.Nodes < 1 || c.Nodes > nodesMax:
		return wrong("nodes", "%d is out of bounds: 1 to %d (flag --nodes)", c.Nodes, nodesMax)
	case c.Sessions < 1 || c.Sessions > systems[c.System].sessionsMax:
		return wrong("sessions", "%d is out of bounds: %s (flag --sessions)", c.Sessions, systems[c.System].sessionsOf())
	case !(c.Speed >= SpeedMin && c.Speed <= SpeedMax): // written so that NaN is refused
		return wrong("speed", "%v is out of bounds: %v to %v (flag --speed)", c.Speed, SpeedMin, SpeedMax)
	}
	return c.checkCriteria()
}

func (c Config) checkTimings() error {
	if c.TTL < TTLMin || c.TTL > TTLMax {
		return wrong("timings.ttl", "%v is out of bounds: %v to %v (flag --ttl; --speed divides the default)",
			c.TTL, TTLMin, TTLMax)
	}
	grace := time.Duration(0)
	if c.System == SystemIntents {
		grace = c.TTL / 6 // the workers' default
	}
	var e *timing.Error
	if errors.As(c.Check(c.LongPolls, grace), &e) {
		key := strings.ToLower(e.Field[:1]) + e.Field[1:]
		return wrong("timings."+key, "%v %s%s", e.Value, e.Why, flagsOf[key])
	}
	return nil
}

var flagsOf = map[string]string{"renew": " (flags --renew, --ttl)", "poll": " (flag --poll)"}

func (c Config) pointless(k fault.Kind) error {
	s := systems[c.System]
	if s == nil || s.faults == nil {
		return c.misplaced(k)
	}
	return cmp.Or(c.misplaced(k), s.faults(k))
}
