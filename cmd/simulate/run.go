package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/real"
	"github.com/leasestorm/leasestorm/sim/report"
)

// redisChoice parses --redis and reads its password.
func (f *flags) redisChoice() (sim.RedisChoice, error) {
	switch s := f.redis; {
	case f.compose != "":
		return sim.RedisChoice{Kind: sim.RedisCompose, Project: f.compose}, nil
	case s == "" || s == "server" || s == "container" || s == "embedded":
		return sim.RedisChoice{Kind: s, Image: f.redisImage}, nil
	case strings.Contains(s, "://"):
		password, err := redisurl.Password(f.passwordFile, os.Getenv(redisurl.PasswordVariable))
		if err != nil {
			return sim.RedisChoice{}, err
		}
		if s, err = redisurl.With(s, password); err != nil {
			return sim.RedisChoice{}, fmt.Errorf("--redis is %w", err)
		}
		return sim.RedisChoice{Kind: "url", URL: s}, nil
	}
	return sim.RedisChoice{}, fmt.Errorf("--redis %s: give server, container, embedded or a URL such as redis://localhost:6379",
		f.shownRedis())
}

var address = regexp.MustCompile(`^[a-zA-Z0-9.-]+(:[0-9]+)?$`)

// shownRedis returns --redis for a message: a URL without its password. If it is neither a URL nor an address, it is hidden.
func (f *flags) shownRedis() string {
	if address.MatchString(f.redis) {
		return strconv.Quote(f.redis)
	}
	return redisurl.Show(f.redis)
}

// bend breaks the virtual engine's instances. Only tests set it.
var bend sim.Breaker

func (f *flags) bend() sim.Breaker {
	if f.lua {
		return sim.Interpreted(bend)
	}
	return bend
}

func (f *flags) newEngine(c sim.Config, redis sim.RedisChoice, pulling func(image string)) (sim.Engine, error) {
	if f.compose != "" && (c.Engine != sim.EngineReal || c.System != sim.SystemPolling || len(c.NodeCmd) > 0) {
		return nil, fmt.Errorf("--compose %s always runs real pollers: it cannot be combined with another engine, system or node", f.compose)
	}
	stores, err := f.stores(c)
	if err != nil {
		return nil, err
	}
	if c.Engine == sim.EngineVirtual {
		if f.launcher == launchContainers {
			return nil, errors.New("--launcher container: the virtual engine starts no processes: leave it out")
		}
		if f.ownImage {
			return nil, fmt.Errorf("--redis-image %s: the virtual engine has a Redis of its own: leave it out", f.redisImage)
		}
		if f.redis != "" {
			return nil, fmt.Errorf("--redis %s: the virtual engine has a Redis of its own: leave it out", f.shownRedis())
		}
		return sim.NewVirtual(f.bend()), nil
	}
	if f.lua {
		return nil, errors.New("--lua: the real engine always runs the scripts: leave it out, or give --engine virtual")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to start it as a node: %w", err)
	}
	launch := sim.Launcher{
		Node: []string{self, nodeArg}, Lease: []string{self, leaseArg}, Stores: stores, Containers: f.launcher == launchContainers,
		Image: f.nodeImage,
	}
	if launch.Containers && len(c.NodeCmd) > 0 && launch.Image == "" {
		return nil, errors.New("--node-cmd with --launcher container: give --node-image too, the image that has the program")
	}
	if redis.Servers, redis.Cluster = c.Servers(), c.Topology == sim.TopologyCluster; redis.Servers > 0 {
		if err := f.ownServers(c.Topology); err != nil {
			return nil, err
		}
	}
	redis.Pulling, launch.Pulling = pulling, pulling
	return sim.NewReal(redis, launch), nil
}

var storeName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// stores parses --proxy.
func (f *flags) stores(c sim.Config) (all []real.Store, err error) {
	for _, p := range f.proxies {
		name, addr, _ := strings.Cut(p, "=")
		if !storeName.MatchString(name) || listenable(addr) != nil {
			return nil, fmt.Errorf("--proxy %q: must be NAME=host:port, such as POSTGRES=127.0.0.1:5432", p)
		}
		all = append(all, real.Store{Name: name, Addr: addr})
	}
	switch {
	case len(all) == 0:
	case c.Engine == sim.EngineVirtual:
		return nil, errors.New("--proxy: the virtual engine has no network: leave it out")
	case c.Topology != sim.TopologySingle:
		return nil, fmt.Errorf("--proxy with --topology %s: leave one of them out", c.Topology)
	}
	return all, nil
}

// ownServers refuses flags that contradict several servers, which run as processes of this program.
func (f *flags) ownServers(topology string) error {
	switch {
	case f.launcher == launchContainers:
		return fmt.Errorf("--launcher container with --topology %s: containers cannot reach the servers, which have addresses of this machine: leave it out", topology)
	case f.compose != "":
		return fmt.Errorf("--compose %s with --topology %s: its Redis is one server: leave one of them out", f.compose, topology)
	case f.redis != "" && f.redis != "server":
		return fmt.Errorf("--redis %s with --topology %s: the simulator starts all servers itself: leave --redis out",
			f.shownRedis(), topology)
	}
	return nil
}

func (f *flags) run(cmd *cobra.Command, c sim.Config) error {
	choice, err := f.redisChoice()
	if err != nil {
		return err
	}
	if c.Engine == sim.EngineReal {
		if err := f.mayStart(cmd, c.NodeCmd); err != nil {
			return err
		}
	}
	c.NodeCmd = f.withBug(c.NodeCmd)
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	text := f.forPeople(stdout, stderr)
	pulling := func(image string) { fmt.Fprintf(stderr, "pulling %q\n", image) }
	if f.quiet {
		pulling = func(string) {}
	}
	engine, err := f.newEngine(c, choice, pulling)
	if err != nil {
		return err
	}
	f.forgets(stderr, c)
	if f.retargeted > 0 && !f.quiet {
		fmt.Fprintf(text, "faults of owners that hit the same instances as in %s: %d (--aim-anew hits the present owners)\n", plain.Text(f.saved),
			f.retargeted)
	}
	bar := newProgress(stderr, c.Duration())
	o := sim.Options{Engine: engine, Reports: f.report, Least: f.least}
	if !f.quiet {
		o.Started = func(s sim.Start) { f.printStart(text, s) }
		o.Progress = bar.show
	}
	r, err := sim.Run(cmd.Context(), c, o)
	bar.done()
	if err != nil && !errors.Is(err, sim.ErrUnsaved) {
		return err
	}
	f.folder = r.Dir
	unsaved := err
	r.Report.ReplayFlags = f.replayFlags(r)
	printNotes(text, r)
	if err := f.verdict(r.Report, stdout, text); err != nil {
		return err
	}
	if unsaved != nil && r.Report.Verdict != check.Fail {
		return unsaved
	}
	if unsaved != nil {
		fmt.Fprintf(stderr, "simulate: %s\n", redisurl.Line(unsaved))
	}
	if err := f.compare(r, text); err != nil {
		return err
	}
	return exit(r.Report.Verdict)
}

func printNotes(text io.Writer, r sim.Result) {
	for _, note := range r.Outcome.Notes {
		fmt.Fprintf(text, "note: %s\n", note)
	}
	if r.Outcome.Late > 0 {
		fmt.Fprintf(text, "note: faults that were injected later than planned, as the host was busy: %d\n", r.Outcome.Late)
	}
	if r.Outcome.Interrupted {
		fmt.Fprintln(text, "note: interrupted: judged as far as it went")
	}
	if missing := missed(r.Config.Faults, r.Plan); missing != "" {
		fmt.Fprintf(text, "note: the storm is too short for: %s\n", missing)
	}
}

func (f *flags) verdict(r report.Report, stdout, text io.Writer) error {
	if f.json {
		data, err := r.JSON()
		if err == nil {
			_, err = stdout.Write(data)
		}
		if err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	fmt.Fprintln(text)
	sentence, drawn := f.draw(r, f.folder, text)
	word := plain.Word(f.folder)
	if err := f.judged(r, text); err != nil {
		return fmt.Errorf("write the verdict: %w", err)
	}
	if !f.verbose {
		fmt.Fprintf(text, "  all of it:       simulate check %s --verbose\n", word)
	}
	if drawn && !f.noHTML {
		fmt.Fprintf(text, seeIt, word)
	}
	if sentence != "" && r.Verdict != check.Pass {
		fmt.Fprintf(text, "\n%s\n", sentence)
	}
	return nil
}

// judged prints the table and the breaks. With --verbose, it adds the reason and the events around each guarantee's first break.
func (f *flags) judged(r report.Report, text io.Writer) error {
	if !f.verbose {
		return r.Brief(text, f.folder)
	}
	if err := errors.Join(r.Table(text), r.Failures(text, f.folder)); err != nil {
		return err
	}
	if r.Verdict == check.Pass {
		fmt.Fprint(text, r.Commands(f.folder))
	}
	dir := plain.Text(f.folder) // a newline in its name must not begin a line here
	fmt.Fprintf(text, "  files:           %s\n", filepath.Join(dir, "{"+strings.Join([]string{
		report.FileName, sim.HistoryFile, sim.PlanFile, sim.ScenarioFile, sim.LogsDir + "/",
	}, ",")+"}"))
	if sum := r.Stats.HistorySHA256; sum != "" {
		fmt.Fprintf(text, "  history sha256:  %s\n", sum)
	}
	return nil
}

// forPeople returns the writer for text. With --json, standard output contains nothing but JSON.
func (f *flags) forPeople(stdout, stderr io.Writer) io.Writer {
	if f.json {
		return stderr
	}
	return stdout
}

func exit(verdict check.Outcome) error {
	switch verdict {
	case check.Pass:
		return nil
	case check.Fail:
		return verdictError(exitFail)
	}
	return verdictError(exitUnknown)
}

func writeJSON(out io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		_, err = out.Write(append(text, '\n'))
	}
	return err
}
