package replicamodel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Switch is a part of a storm that can be left out.
type Switch struct {
	Name   string
	What   string
	Stands bool // the protocol has to stand it; else it breaks an assumption
}

// Switches are all of them. What is in no switch strikes always: promotions of any node, replicas that move, flip and flap, masters
// that are demoted and promoted again, restarts with and without data, both kinds of link cut, messages late by up to 2 TTLs or lost.
var Switches = []Switch{
	{"dumps", "replicas restart from an old dump, following any master", true},
	{"flush", "FLUSHALL at any master, and the marker alone deleted", true},
	{"pause", "clients pause for up to 2 TTLs, or end and return as another instance", true},
	{"freeze", "processes of Redis freeze for up to 2 TTLs", true},
	{"back", "Redis' clocks step back by up to 2 TTLs, and forward within the margin; fences are not judged", true},
	{"double", "two failovers within a TTL", true},
	{"return", "a replica leaves a master for a new one, and returns out of a dump of its days with the former", true},
	{"replace", "a node is ended for good, and an empty one takes its place", true},
	{"witness", "one process more that never acknowledges and is never promoted", true},
	{"backup", "one process more that attaches itself now and then, copies, and leaves", true},
	{"grow", "three nodes become five: first all clients count more, then the new nodes attach", true},
	{"shrink", "five nodes become three: first the nodes end, then all clients count less", true},
	{"begin", "clients begin to wait for replicas, one by one; judged is who does", true},
	{"reshard", "the leases' slot moves to other three nodes, of which those that had it hear first", true},

	{"forward", "Redis' clocks step forward by up to a TTL", false},
	{"stranger", "one acknowledging process more than configured", false},
	{"promoted", "the witness may be promoted", false},
	{"zombie", "a node that was replaced had only been frozen, and returns", false},
	{"reset", "CONFIG RESETSTAT, and as many attachments again", false},
	{"grow-early", "the new nodes attach before all clients count more", false},
	{"shrink-early", "clients count less before the nodes have ended", false},
	{"low", "one client is configured with one replica less than the others, two with no nodes", false},
	{"reshard-early", "the leases' slot moves while an old master of those that had it does not hear", false},
}

// Storm is what strikes.
type Storm struct {
	Nodes, Clients int     // at the start
	Skew           float64 // half the difference between two masters' clocks, TTLs
	Dwell          float64 // TTLs for which a node stays with its master at least, or a master
	Chain          bool    // replicas of replicas
	With           []string
}

// Standing is a storm of everything that the protocol has to stand at once. What changes the number of nodes excludes other such
// changes, and clocks that step back exclude the judgement of fences: these are added by name.
func Standing(with ...string) Storm {
	return Storm{
		Nodes: 3, Clients: 3, Skew: 0.49,
		With: append([]string{"dumps", "flush", "pause", "freeze", "double", "replace"}, with...),
	}
}

// processes are all nodes that there ever are at a time, witness and stranger apart.
func (s *Storm) processes() int {
	switch {
	case s.has("grow"), s.has("grow-early"):
		return s.Nodes + 2
	case s.moves():
		return 2 * s.Nodes
	}
	return s.Nodes
}

func (s *Storm) moves() bool { return s.has("reshard") || s.has("reshard-early") }

func (s *Storm) has(name string) bool { return slices.Contains(s.With, name) }

// Validate refuses switches that there are not.
func (s *Storm) Validate() error {
	for _, name := range s.With {
		if !slices.ContainsFunc(Switches, func(w Switch) bool { return w.Name == name }) {
			return fmt.Errorf("there is no switch %q", name)
		}
	}
	return nil
}

// fault is one thing that strikes.
type fault struct {
	at   float64
	kind string
	a, b int // node or client, and node
	span float64
}

// drawer draws the faults of a storm.
type drawer struct {
	*rand.Rand
	s      Storm
	nodes  int // that may be struck
	faults []fault
}

func (d *drawer) add(at float64, kind string, a, b int, span float64) {
	d.faults = append(d.faults, fault{at, kind, a, b, span})
}

// weights are how often each kind is drawn, drawn anew for each run, so that runs differ in what they are full of.
func (d *drawer) weights() []string {
	kinds := []struct {
		name, needs string
		least, more int
	}{
		{"failover", "", 4, 1}, {"promote", "", 0, 4}, {"point", "", 0, 4}, {"flip", "", 0, 4}, {"flap", "", 0, 3},
		{"repromote", "", 0, 3}, {"visit", "", 0, 4}, {"cutNodes", "", 0, 5}, {"cutClient", "", 0, 6}, {"empty", "", 0, 2}, {"data", "", 0, 2},
		{"retarget", "", 1, 5}, {"dump", "dumps", 1, 3}, {"flush", "flush", 0, 2}, {"unmark", "flush", 0, 2},
		{"pause", "pause", 0, 4}, {"restart", "pause", 0, 3}, {"freeze", "freeze", 0, 5}, {"step", "back", 0, 5},
		{"step", "forward", 1, 4}, {"double", "double", 0, 4}, {"replace", "replace", 0, 3}, {"zombie", "zombie", 1, 3},
		{"reset", "reset", 3, 3}, {"backup", "backup", 1, 3}, {"reshard", "reshard", 2, 2}, {"reshard", "reshard-early", 2, 2},
		{"return", "return", 1, 4},
	}
	var bag []string
	for _, k := range kinds {
		n := k.least + d.IntN(k.more)
		if k.needs == "" || d.s.has(k.needs) {
			bag = append(bag, slices.Repeat([]string{k.name}, n)...)
		}
	}
	return bag
}

// draw returns the faults of a storm in the order in which they strike.
func draw(seed uint64, s Storm) []fault {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 1)), s: s, nodes: s.processes()}
	if s.has("witness") || s.has("promoted") || s.has("stranger") {
		d.nodes++
	}
	bag := d.weights()
	mean := ttl * (0.2 + d.Float64())
	for t := ttl; t < stormEnd; t += d.ExpFloat64() * mean {
		d.one(t, bag[d.IntN(len(bag))])
	}
	d.resize()
	slices.SortStableFunc(d.faults, func(x, y fault) int {
		switch {
		case x.at < y.at:
			return -1
		case x.at > y.at:
			return 1
		}
		return 0
	})
	return d.faults
}

// one draws one fault, which may be several strikes.
func (d *drawer) one(t float64, kind string) {
	a, b, span := d.IntN(d.nodes), d.IntN(d.nodes), d.Float64()*4*ttl
	switch kind {
	case "failover":
		d.failover(t, b)
	case "double": // the second while the first is under way
		d.failover(t, b)
		d.failover(t+d.Float64()*ttl, a)
	case "flip": // a goes to b, and elsewhere, and back
		for n := 2 + d.IntN(4); n > 0; n-- {
			d.add(t, "point", a, b, 0)
			t += d.ExpFloat64() * ttl * []float64{0.1, 0.4, 1}[d.IntN(3)]
			b = d.IntN(d.nodes)
		}
	case "flap": // a alternates between two masters
		c, gap := d.IntN(d.nodes), ttl*(0.05+d.Float64()*0.5)
		for i := range 8 {
			d.add(t+float64(i)*gap, "point", a, []int{b, c}[i%2], 0)
		}
	case "return": // a goes from b to another master, and comes back out of a dump
		c := d.IntN(d.nodes)
		d.add(t, "promote", c, 0, 0)
		d.add(t+d.ExpFloat64()*ttl*0.2, "point", a, c, 0)
		d.add(t+ttl*(0.8+d.ExpFloat64()), "dump", a, b, 0)
	case "repromote": // a master is demoted and promoted again
		d.add(t, "point", a, b, 0)
		d.add(t+d.ExpFloat64()*ttl*0.3, "promote", a, 0, 0)
	case "cutClient", "retarget":
		d.add(t, kind, d.IntN(d.s.Clients), b, span)
	case "pause", "restart":
		d.add(t, kind, d.IntN(d.s.Clients), 0, span/2)
	case "freeze":
		d.add(t, kind, a, 0, span/2)
	case "reset":
		d.reset(t, a, b, d.IntN(d.nodes))
	case "visit": // a leaves b for as long as another master's quarantine lasts, and returns
		d.visit(t, a, b, d.s.Clients)
		t += ttl * (0.3 + d.Float64())
		d.visit(t, a, d.IntN(d.nodes), 1+d.IntN(2))
		d.visit(t+ttl*(1+d.Float64()*0.3), a, b, d.IntN(2))
	default:
		d.add(t, kind, a, b, span)
	}
}

// failover makes b the master; the others follow it one by one, the old master late or never.
func (d *drawer) failover(t float64, b int) {
	d.add(t, "promote", b, 0, 0)
	for x := range d.nodes {
		if x != b && d.IntN(4) > 0 {
			d.add(t+d.ExpFloat64()*ttl*0.7, "point", x, b, 0)
		}
	}
	for c := range d.s.Clients {
		if d.IntN(2) == 0 {
			d.add(t+d.Float64()*ttl, "retarget", c, b, 0)
		}
	}
}

// visit has a follow master, and clients find it.
func (d *drawer) visit(t float64, a, master, clients int) {
	d.add(t, "promote", master, 0, 0)
	d.add(t+d.Float64()*0.1*ttl, "point", a, master, 0)
	for _, c := range d.Perm(d.s.Clients)[:clients] {
		d.add(t+d.Float64()*0.1*ttl, "retarget", c, master, 0)
	}
}

// reset has a leave master b for master c, and return after b began to count anew: b has as many attachments as before.
func (d *drawer) reset(t float64, a, b, c int) {
	d.visit(t, a, b, d.s.Clients)
	t += ttl * (1.3 + d.Float64()*0.3)
	d.visit(t, a, c, d.s.Clients)
	t += ttl * (1.1 + d.Float64()*0.3)
	d.add(t, "reset", b, 0, 0)
	d.visit(t, a, b, 1)
}

// resize draws the phases of a change of the number of nodes, each between two times in which everything of it happens.
func (d *drawer) resize() {
	first, second, third := 5*ttl, 8*ttl, 11*ttl
	phase := func(kind string, from float64, list ...int) {
		for _, x := range list {
			d.add(from+d.Float64()*3*ttl*0.99, kind, x, d.IntN(3), 0)
		}
	}
	var clients []int
	for c := range d.s.Clients {
		clients = append(clients, c)
	}
	switch {
	case d.s.has("grow"):
		phase("raise", first, clients...)
		phase("replicas", second, 0, 1, 2)
		phase("join", second, 3, 4)
	case d.s.has("grow-early"):
		phase("join", first, 3, 4)
		phase("raise", second, clients...)
	case d.s.has("shrink"):
		phase("end", first, 3, 4)
		phase("lower", second, clients...)
		phase("replicas", third, 0, 1, 2)
	case d.s.has("shrink-early"):
		phase("lower", first, clients...)
		phase("replicas", first, 0, 1, 2)
		phase("end", third, 3, 4)
	case d.s.has("begin"):
		phase("raise", first, clients...)
	}
}

// String is the storm as flags.
func (s Storm) String() string {
	return fmt.Sprintf("%d nodes, %d clients, skew %g, %s", s.Nodes, s.Clients, s.Skew, strings.Join(s.With, ","))
}
