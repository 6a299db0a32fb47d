package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// printStart prints the parameters before the first node starts: all if verbose, otherwise two lines.
func printStart(out io.Writer, s sim.Start, verbose bool) {
	c := s.Config
	if !verbose {
		fmt.Fprintf(out, "%s, seed %d: %s share %s for %v, TTL %v, %s; Redis: %s; node: %s\nfolder: %s\n", c.Name, c.Seed,
			plain.Count(c.Nodes, "node"), plain.Count(c.Sessions, "session"), c.Storm+c.Calm, ms(c.TTL),
			plain.Count(len(s.Plan.Faults), "fault"), redisOf(s), nodeOf(s), s.Dir)
		return
	}
	fmt.Fprintf(out, "scenario %s  seed %d  speed %v  nodes %d  sessions %d\n", c.Name, c.Seed, c.Speed, c.Nodes, c.Sessions)
	fmt.Fprintf(out, "storm %v  calm %v  TTL %v  renew %v  heartbeat %v  discovery %v\n",
		c.Storm, c.Calm, ms(c.TTL), ms(c.Renew), ms(c.Heartbeat), ms(c.Discovery))
	fmt.Fprintf(out, "poll %v  poll timeout %v  served in %v  long polls %v\n",
		ms(c.Poll), ms(c.PollTimeout), ms(c.Serve), c.LongPolls)
	criteria := "those that the plan can exercise, and any that breaks"
	if len(c.Criteria) > 0 {
		criteria = strings.Join(c.Criteria, ", ")
	}
	fmt.Fprintf(out, "Redis: %s\nnode: %s\ncriteria: %s\n", redisOf(s), nodeOf(s), criteria)
	printPlan(out, s.Plan)
	fmt.Fprintf(out, "folder: %s\n\n", s.Dir)
}

func redisOf(s sim.Start) string {
	redis := strings.TrimSpace(s.Redis.Kind + " " + s.Redis.Version)
	if s.Redis.Note != "" {
		redis += " (" + s.Redis.Note + ")"
	}
	return redis
}

func nodeOf(s sim.Start) string {
	node := "reference node"
	switch {
	case len(s.Config.NodeCmd) > 0:
		_, words := flagOf(s.Config.NodeCmd)
		node = quoted(words)
	case s.Config.Engine == sim.EngineVirtual:
		node = "the library's rules, in virtual time"
	}
	if s.Redis.Nodes != "" {
		node += ", in containers of " + s.Redis.Nodes
	}
	return node
}

func printPlan(out io.Writer, p fault.Plan) {
	lone := 0
	for _, f := range p.Faults {
		if f.Lone {
			lone++
		}
	}
	fmt.Fprintf(out, "plan: %d faults, %d of them alone, timed from the beginning of the storm\n", len(p.Faults), lone)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range p.Faults {
		how := ""
		if f.Lone {
			how = "alone"
		}
		fmt.Fprintf(w, "  %v\t%s\t%s\t%s\t%s\n", f.At, f.Kind, f.Target, amount(f), how)
	}
	_ = w.Flush()
}

// missed lists the requested kinds of faults that the plan does not have.
func missed(asked []fault.Kind, p fault.Plan) string {
	var names []string
	for _, k := range asked {
		if _, out := k.TakenOut(); !out && !slices.ContainsFunc(p.Faults, func(f fault.Fault) bool { return f.Kind == k }) {
			names = append(names, string(k))
		}
	}
	return strings.Join(names, ", ")
}

func amount(f fault.Fault) string {
	var parts []string
	add := func(name string, n int64, unit string) {
		if n > 0 {
			parts = append(parts, name+strconv.FormatInt(n, 10)+unit)
		}
	}
	if f.For > 0 {
		parts = append(parts, "for "+f.For.String())
	}
	unit, ways := f.Kind.Unit()
	switch add("", f.Ms, unit); {
	case ways == [2]string{}:
		add("± ", f.Jitter, unit)
	case f.Jitter == 0:
		parts = append(parts, ways[0])
	default:
		parts = append(parts, ways[1])
	}
	add("", f.KBps, " kB/s")
	if f.Deny != "" {
		parts = append(parts, "denies "+f.Deny)
	}
	return strings.Join(parts, " ")
}

// ms rounds a derived duration for readers. The files have the exact value.
func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
