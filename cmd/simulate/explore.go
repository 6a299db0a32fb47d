package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// explorer runs the storm of its flags, or with --seeds the storms that the seeds draw.
type explorer struct {
	player
	seeds, shard        string
	parallel            int
	keepGoing, resuming bool
}

func (f *explorer) register(fs *pflag.FlagSet) {
	f.player.register(fs)
	f.registerJudged(fs)
	fs.StringVar(&f.seeds, "seeds", "",
		"play the storms that the seeds `A-B` draw, in virtual time (A-B@V: as version V draws them); other flags replace drawn values")
	fs.IntVar(&f.parallel, "parallel", runtime.GOMAXPROCS(0), "with --seeds: runs at a time")
	fs.StringVar(&f.shard, "shard", "1/1",
		"with --seeds: the `i/n`-th part of them, for several machines (simulate merge); job/n: that of an Indexed Job's pod")
	fs.BoolVar(&f.keepGoing, "keep-going", false, "with --seeds: do not stop at the first seed that fails")
	fs.BoolVar(&f.resuming, "resume", false, "with --seeds: continue an exploration that stopped")
}

func (f *explorer) explores(fs *pflag.FlagSet) (bool, error) {
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

func (f *explorer) exploration(fs *pflag.FlagSet) (explore.Exploration, error) {
	f.engine = sim.EngineVirtual
	x := explore.Exploration{
		Parallel: f.parallel, KeepGoing: f.keepGoing, Resume: f.resuming, Reports: f.report,
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

func (f *explorer) explore(cmd *cobra.Command) error {
	x, err := f.exploration(cmd.Flags())
	if err != nil {
		return err
	}
	if err := f.buildGuest(cmd, x.Scenario.NodeCmd); err != nil {
		return err
	}
	x.Bend = f.bend()
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if !f.quiet {
		x.Progress = coverageLine(stderr)
	}
	x.Saved = f.pageOfSeed(stderr)
	rarelyCollect()
	c, err := explore.Run(cmd.Context(), x)
	return f.covered(c, err, f.luaFlag()+nodeFlag(x.Scenario.NodeCmd), stdout, stderr)
}

// covered prints the coverage of an exploration, with the flags that its seeds need again, and the error that stopped it or the saving of
// its state. A broken guarantee decides even then.
func (f *explorer) covered(c explore.Coverage, unsaved error, flags string, stdout, stderr io.Writer) error {
	if unsaved != nil && c.Verdict != check.Fail {
		return unsaved
	}
	if f.json {
		if err := writeJSON(stdout, c); err != nil {
			return fmt.Errorf("write the coverage: %w", err)
		}
	}
	var table bytes.Buffer
	printCoverage(&table, c, flags)
	if _, err := table.WriteTo(f.forPeople(stdout, stderr)); err != nil {
		return fmt.Errorf("write the coverage, which is in %s: %w", c.File, err)
	}
	if unsaved != nil {
		fmt.Fprintf(stderr, "simulate: %s\n", redisurl.Line(unsaved))
	}
	return exit(c.Verdict)
}

// pageOfSeed returns a function that draws a failing seed's run as soon as its folder exists, because an exploration may end at any time.
func (f *explorer) pageOfSeed(notes io.Writer) func(sim.Result) {
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
