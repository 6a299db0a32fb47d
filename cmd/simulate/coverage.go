package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/explore"
)

// coverageLine returns a function that shows the progress: one rewritten line on a terminal, elsewhere an occasional line.
func coverageLine(out io.Writer) func(explore.Progress) {
	out = below(out) // it prints numbers only
	file, ok := out.(*os.File)
	terminal := ok && term.IsTerminal(int(file.Fd()))
	var last time.Time
	return func(c explore.Progress) {
		if last.IsZero() {
			fmt.Fprintf(out, "seeds %d-%d@%d  shard %d/%d  each draws what the flags leave open\n", c.Seeds.From, c.Seeds.To,
				sim.DrawVersion, c.Shard.Index, c.Shard.Of)
			if terminal {
				last = time.Now()
			}
		}
		line := fmt.Sprintf("%d of %d seeds  %s seeds/s  %d violations  %s  %v left", c.Done, c.Total, rate(c.Rate), len(c.Failed),
			rarest(&c.Coverage), c.Left.Round(time.Second))
		switch {
		case terminal:
			fmt.Fprintf(out, "\r\033[K%s", line)
			if c.Done == c.Total {
				fmt.Fprintln(out)
			}
		case time.Since(last) >= plainEvery:
			last = time.Now()
			fmt.Fprintln(out, line)
		}
	}
}

func rate(perSecond float64) string {
	if perSecond < 10 {
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	return strconv.FormatFloat(perSecond, 'f', 0, 64)
}

// rarest describes how many guarantees were exercised, and which by the fewest seeds.
func rarest(c *explore.Coverage) string {
	fewest := explore.GuaranteeCount{}
	for _, g := range c.Guarantees {
		for _, id := range c.Criteria {
			if id == g.ID && (fewest.ID == "" || g.Exercised < fewest.Exercised) {
				fewest = g
			}
		}
	}
	return fmt.Sprintf("%d of %d guarantees exercised, the rarest (%s) by %d seeds", len(c.Criteria)-len(c.Missing()), len(c.Criteria),
		fewest.ID, fewest.Exercised)
}

const failedMax = 20

func printGuarantees(out io.Writer, c *explore.Coverage) {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tseeds that exercised it\tthat broke it\tchanges judged\tprolonged by ½, 1, 1½, 2 TTL\texcused\t")
	for _, g := range c.Guarantees {
		mark := ""
		if slices.Contains(c.Criteria, g.ID) {
			mark = "*"
		}
		prolonged := ""
		if len(g.Prolonged) > 0 {
			prolonged = strings.Trim(fmt.Sprint(g.Prolonged), "[]")
		}
		fmt.Fprintf(w, "%s%s\t%d\t%d\t%d\t%s\t%d\t%.1f %%\n", g.ID, mark, g.Exercised, g.Broken, g.Judged, prolonged, g.Excused,
			100*float64(g.Excused)/max(1, float64(g.Judged+g.Excused)))
	}
	_ = w.Flush()
}

// printCoverage prints the coverage of the exploration. again follows the folder in the commands that repeat a failing seed.
func printCoverage(out io.Writer, c explore.Coverage, again string) {
	printGuarantees(out, &c)
	for i, s := range c.Failed {
		if i == failedMax {
			fmt.Fprintf(out, "\n… and %d more failing seeds, in %s\n", len(c.Failed)-failedMax, c.File)
			break
		}
		fmt.Fprintf(out, "\nseed %d breaks %s: %s\n", s.Seed, strings.Join(s.Broke, ", "), plain.Text(s.Detail))
		if s.Dir != "" {
			fmt.Fprintf(out, seeIt+"  judge it again:  simulate check %[1]s\n  run it again:    simulate replay %[1]s%[2]s\n"+
				"  make it small:   simulate shrink %[1]s%[2]s\n", plain.Word(s.Dir), again)
		}
	}
	wall := time.Duration(c.WallMs) * time.Millisecond
	virtual := time.Duration(c.VirtualMs) * time.Millisecond
	fmt.Fprintf(out, "\n%d of %d seeds, %d failed, %d compared with a second run, %d with the Lua scripts; %d events, "+
		"%v of virtual time in %v\n", c.Done, c.Total, len(c.Failed), c.Repeated, c.Interpreted, c.Events,
		virtual.Round(time.Second), wall.Round(time.Millisecond))
	if missing := c.Missing(); len(missing) > 0 {
		fmt.Fprintf(out, "no seed exercised %s: more seeds might\n", strings.Join(missing, ", "))
	}
	if c.Done < c.Total {
		fmt.Fprintf(out, "not complete: %s; the same command with --resume runs the remaining %d\n", c.Covered(), c.Total-c.Done)
	}
	fmt.Fprintf(out, "hash: %x\nverdict: %s (* decides)\nstate: %s\n", c.Hash, strings.ToUpper(string(c.Verdict)), c.File)
}
