// Command cmd plays the model of leases on a replicated Redis for as many seeds as are asked for:
//
//	go run ./internal/replicamodel/cmd -seeds 20000
//	go run ./internal/replicamodel/cmd -protocol P1 -seeds 1000 -shrink
//	go run ./internal/replicamodel/cmd -mutant probe -seeds 1000
//	go run ./internal/replicamodel/cmd -with grow-early -seeds 1000 -shrink
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/internal/replicamodel"
)

func main() {
	protocol := flag.String("protocol", "P8", "its name, or several with commas")
	mutant := flag.String("mutant", "", "the rule that is dropped, or several with commas: all")
	from := flag.Uint64("from", 1, "first seed")
	seeds := flag.Uint64("seeds", 1000, "how many")
	nodes := flag.Int("nodes", 3, "data nodes")
	only := flag.String("only", "", "these switches instead of those of a standing storm (\"none\")")
	with := flag.String("with", "", "switches beside those of a standing storm")
	skew := flag.Float64("skew", 0.49, "half the difference between two masters' clocks, TTLs")
	dwell := flag.Float64("dwell", 0, "a node keeps its master for so many TTLs at least")
	chain := flag.Bool("chain", false, "replicas of replicas")
	shrink := flag.Bool("shrink", false, "show the first run that breaks, made small")
	failover := flag.Bool("failover", false, "one failover in peace instead of storms")
	list := flag.Bool("switches", false, "list the switches")
	flag.Parse()
	if *list {
		for _, s := range replicamodel.Switches {
			fmt.Printf("%-14s %-5v %s\n", s.Name, s.Stands, s.What)
		}
		return
	}
	s := replicamodel.Standing(words(*with)...)
	if *only != "" {
		s.With = slices.DeleteFunc(words(*only), func(w string) bool { return w == "none" })
	}
	s.Nodes, s.Skew, s.Dwell, s.Chain = *nodes, *skew, *dwell, *chain
	rules := words(*mutant)
	if *mutant == "all" {
		rules = rules[:0]
		for _, m := range replicamodel.Mutants {
			rules = append(rules, m.Rule)
		}
	}
	if err := s.Validate(); err != nil {
		fail(err)
	}
	for _, name := range words(*protocol) {
		p, ok := replicamodel.Find(name)
		if !ok {
			fail(fmt.Errorf("there is no protocol %q", name))
		}
		if *failover {
			peace(p, *nodes, *seeds)
			continue
		}
		for _, p.Broken = range append(rules, slices.Repeat([]string{""}, max(0, 1-len(rules)))...) {
			storms(p, s, *from, *seeds, *shrink)
		}
	}
}

func words(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(w string) bool { return w == "" })
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}

func storms(p replicamodel.Protocol, s replicamodel.Storm, from, seeds uint64, shrink bool) {
	var total replicamodel.Outcome
	overlaps, falls, never := 0, 0, 0
	var broken []uint64
	var back []float64
	for seed := from; seed < from+seeds; seed++ {
		out := replicamodel.Run(seed, p, s)
		total.Terms, total.Asserted, total.Epochs = total.Terms+out.Terms, total.Asserted+out.Asserted, total.Epochs+out.Epochs
		switch {
		case out.Overlap:
			overlaps++
			broken = append(broken, seed)
		case out.Fall:
			falls++
			broken = append(broken, seed)
		default:
			for _, t := range out.Back {
				if t < 0 {
					never++
				} else {
					back = append(back, t)
				}
			}
		}
	}
	fmt.Printf("%-12s %-12s %v: runs %d overlap %d (%.2f%%) fall %d | back %s never %d | terms %d asserted %d epochs %d\n",
		p.Name, p.Broken, s, seeds, overlaps, 100*float64(overlaps)/float64(seeds), falls, spread(back), never,
		total.Terms, total.Asserted, total.Epochs)
	if len(broken) == 0 {
		return
	}
	fmt.Printf("  seeds %d\n", broken[:min(12, len(broken))])
	if shrink {
		for _, line := range replicamodel.Shrink(broken[0], p, s) {
			fmt.Println("  " + line)
		}
	}
}

func spread(x []float64) string {
	if len(x) == 0 {
		return "-"
	}
	slices.Sort(x)
	at := func(q float64) float64 { return x[int(q*float64(len(x)-1))] }
	return fmt.Sprintf("p50 %.2f p99 %.2f max %.2f TTL", at(0.5), at(0.99), at(1))
}

func peace(p replicamodel.Protocol, nodes int, seeds uint64) {
	for _, back := range []bool{false, true} {
		var gaps, again []float64
		for seed := range seeds {
			gap, a := replicamodel.Failover(seed+1, p, nodes, back)
			gaps, again = append(gaps, gap), append(again, a)
		}
		fmt.Printf("%-12s %d nodes, old master back %v: living owner's lease nobody's %s; dead owner's again after %s\n",
			p.Name, nodes, back, spread(gaps), spread(again))
	}
}
