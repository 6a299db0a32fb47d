package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/explore"
)

// rarelyCollect lets the heap grow to five times its live size before a collection, unless GOGC is set. The garbage of a small virtual
// fleet is young, and frequent collections would take a tenth of an exploration's time.
func rarelyCollect() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

func (f *flags) registerExplore(fs *pflag.FlagSet) {
	fs.StringVar(&f.seeds, "seeds", "",
		"explore drawn storms in virtual time, `A-B` both included (A-B@V: as version V draws them); other flags fix what is drawn")
	fs.IntVar(&f.parallel, "parallel", runtime.GOMAXPROCS(0), "with --seeds: runs at a time")
	fs.StringVar(&f.shard, "shard", "1/1",
		"with --seeds: the `i/n`-th part of them, for several machines (simulate merge); job/n: that of an Indexed Job's pod")
	fs.BoolVar(&f.keepGoing, "keep-going", false, "with --seeds: do not stop at the first seed that fails")
	fs.BoolVar(&f.resuming, "resume", false, "with --seeds: continue an exploration that stopped")
}

func (f *flags) explores(fs *pflag.FlagSet) (bool, error) {
	if fs.Changed("seeds") {
		switch {
		case fs.Changed("seed"):
			return false, fmt.Errorf("--seed and --seeds: give one seed or a range, not both")
		case fs.Changed("min-exercised"):
			return false, fmt.Errorf("--min-exercised is for one run: an exploration says which guarantee no seed exercised")
		case fs.Changed("engine") && f.engine == sim.EngineReal:
			return false, fmt.Errorf("--seeds explores in virtual time: give --engine virtual with it")
		}
		return true, nil
	}
	for _, name := range []string{"parallel", "shard", "keep-going", "resume"} {
		if fs.Changed(name) {
			return false, fmt.Errorf("--%s goes with --seeds A-B only", name)
		}
	}
	return false, nil
}

func (f *flags) exploration(fs *pflag.FlagSet) (explore.Exploration, error) {
	f.engine = sim.EngineVirtual
	x := explore.Exploration{
		Parallel: f.parallel, KeepGoing: f.keepGoing, Resume: f.resuming, Reports: f.report, Bend: f.bend(),
	}
	var err error
	if x.Scenario, err = f.given(fs); err != nil {
		return x, err
	}
	if f.redis != "" {
		return x, fmt.Errorf("--redis %s: the virtual engine has a Redis of its own: leave it out", f.shownRedis())
	}
	seeds, err := drawnBy(f.seeds)
	if err != nil {
		return x, fmt.Errorf("--seeds %w", err)
	}
	from, to, ok := strings.Cut(seeds, "-")
	if x.Seeds.From, x.Seeds.To, err = pair(from, to, ok); err != nil {
		return x, fmt.Errorf("--seeds %q: give the first and the last seed, such as 1-1000: %w", f.seeds, err)
	}
	index, of, ok := strings.Cut(f.shard, "/")
	if index == shardOfJob {
		if index, err = jobIndex(); err != nil {
			return x, fmt.Errorf("--shard %s: %w", f.shard, err)
		}
	}
	if x.Shard.Index, x.Shard.Of, err = pair(index, of, ok); err != nil {
		return x, fmt.Errorf("--shard %q: give the part and how many there are, such as 1/4: %w", f.shard, err)
	}
	return x, nil
}

// With shardOfJob, the shard's number comes from the environment of a pod of a Kubernetes Indexed Job, which counts from 0.
const (
	shardOfJob       = "job"
	jobIndexVariable = "JOB_COMPLETION_INDEX"
)

func jobIndex() (string, error) {
	text, ok := os.LookupEnv(jobIndexVariable)
	if !ok {
		return "", fmt.Errorf("%s is not set: it is in the pods of an Indexed Job; elsewhere give the number of the part, such as 1/8",
			jobIndexVariable)
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return "", fmt.Errorf("%s: %w", jobIndexVariable, unwrapNumber(err))
	}
	return strconv.FormatUint(n+1, 10), nil
}

// drawnBy removes the draw version from seeds like "1-1000@1" or "42@1". It refuses any other version, whose seeds give other runs.
func drawnBy(seeds string) (string, error) {
	seeds, version, given := strings.Cut(seeds, "@")
	if given && version == "" {
		return "", fmt.Errorf("%s@: the version behind the @ is missing; this program draws version %d", seeds, sim.DrawVersion)
	}
	if given && version != strconv.Itoa(sim.DrawVersion) {
		return "", fmt.Errorf("%s@%s: version %q drew these seeds, this program draws version %d: go to a commit that draws that one",
			seeds, version, version, sim.DrawVersion)
	}
	return seeds, nil
}

func pair(a, b string, ok bool) (x, y uint64, err error) {
	if !ok {
		return 0, 0, fmt.Errorf("two numbers are needed")
	}
	if x, err = strconv.ParseUint(a, 10, 64); err == nil {
		y, err = strconv.ParseUint(b, 10, 64)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%w", unwrapNumber(err))
	}
	return x, y, nil
}

func unwrapNumber(err error) error {
	var n *strconv.NumError
	if errors.As(err, &n) {
		return fmt.Errorf("%q: %w", n.Num, n.Err)
	}
	return err
}

func (f *flags) explore(cmd *cobra.Command) error {
	x, err := f.exploration(cmd.Flags())
	if err != nil {
		return err
	}
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if !f.quiet {
		x.Progress = coverageLine(stderr)
	}
	x.Saved = f.pageOfSeed(stderr)
	rarelyCollect()
	c, err := explore.Run(cmd.Context(), x)
	return f.covered(c, err, stdout, stderr)
}

// covered prints the coverage of an exploration and the error that stopped it or the saving of its state. A broken guarantee decides even
// then.
func (f *flags) covered(c explore.Coverage, unsaved error, stdout, stderr io.Writer) error {
	if unsaved != nil && c.Verdict != check.Fail {
		return unsaved
	}
	if f.json {
		if err := writeJSON(stdout, c); err != nil {
			return fmt.Errorf("write the coverage: %w", err)
		}
	}
	var table bytes.Buffer
	printCoverage(&table, c, f.luaFlag())
	if _, err := table.WriteTo(f.forPeople(stdout, stderr)); err != nil {
		return fmt.Errorf("write the coverage, which is in %s: %w", c.File, err)
	}
	if unsaved != nil {
		fmt.Fprintf(stderr, "simulate: %s\n", redisurl.Line(unsaved))
	}
	return exit(c.Verdict)
}

// pageOfSeed returns a function that draws a failing seed's run as soon as its folder exists, because an exploration may end at any time.
func (f *flags) pageOfSeed(notes io.Writer) func(sim.Result) {
	var mu sync.Mutex // guards notes
	return func(r sim.Result) {
		r.Report.ReplayFlags = f.replayFlags(r)
		var said bytes.Buffer
		f.draw(r.Report, r.Dir, &said)
		mu.Lock()
		defer mu.Unlock()
		_, _ = said.WriteTo(notes)
	}
}

// coverageLine returns a function that shows the progress: one rewritten line on a terminal, elsewhere an occasional line.
func coverageLine(out io.Writer) func(explore.Coverage) {
	out = below(out) // it prints numbers only
	file, ok := out.(*os.File)
	terminal := ok && term.IsTerminal(int(file.Fd()))
	var last time.Time
	return func(c explore.Coverage) {
		if last.IsZero() {
			fmt.Fprintf(out, "seeds %d-%d@%d  shard %d/%d  each draws what the flags leave open\n", c.Seeds.From, c.Seeds.To,
				sim.DrawVersion, c.Shard.Index, c.Shard.Of)
			if terminal {
				last = time.Now()
			}
		}
		line := fmt.Sprintf("%d of %d seeds  %s seeds/s  %d violations  %s  %v left", c.Done, c.Total, rate(c.Rate), len(c.Failed),
			rarest(c), c.Left.Round(time.Second))
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
func rarest(c explore.Coverage) string {
	fewest := explore.GuaranteeCount{}
	for _, g := range c.Guarantees {
		for _, id := range c.Criteria {
			if id == g.ID && (fewest.ID == "" || g.Exercised < fewest.Exercised) {
				fewest = g
			}
		}
	}
	return fmt.Sprintf("%d of %d guarantees exercised, %s by %d seeds", len(c.Criteria)-len(c.Missing()), len(c.Criteria),
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
