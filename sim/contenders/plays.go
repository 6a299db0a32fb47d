package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/gonode"
	"github.com/leasestorm/leasestorm/sim/guest"
	"github.com/leasestorm/leasestorm/sim/report"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// The modes.
const (
	documented = "documented"
	careful    = "careful"
)

// modes returns the ways in which the contender is used.
func (c *contender) modes() []string {
	if c.Careful == "" {
		return []string{documented}
	}
	return []string{documented, careful}
}

// play is a storm of one contender, one question and one seed.
type play struct {
	contender *contender
	question  *question
	mode      string
	seed      int
}

// cell names what all seeds of a contender, a mode and a question showed.
type cell struct {
	contender string
	question  string
	mode      string
}

// table holds the results of all plays. Its lock is for plays at the same time.
type table struct {
	mu    sync.Mutex
	cells map[cell][]result
}

// settings say how everything is played, and where its results go.
type settings struct {
	simulate, bin, folder string
	seeds, parallel       int
	virtual               int
	resume                bool
}

// plays returns everything that matches, virtual or real, one seed of everything after the other.
func (s settings) plays(only *regexp.Regexp, virtual bool) (all []play) {
	for i := range questions {
		for j := range contenders {
			q, c := &questions[i], &contenders[j]
			if s.onVirtual(c) != virtual || !c.answers(q, virtual) || !only.MatchString(c.Name+"/"+q.Name) {
				continue
			}
			for _, mode := range c.modes() {
				for seed := range s.seedsOf(q, virtual) {
					all = append(all, play{c, q, mode, seed + 1})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b play) int { return a.seed - b.seed })
	return all
}

func (s settings) seedsOf(q *question, virtual bool) int {
	n := s.seeds * max(q.times, 1)
	if virtual {
		n = s.virtual
	}
	if q.most > 0 {
		n = min(n, q.most)
	}
	return n
}

// answers reports whether the question can be put to the contender.
func (c *contender) answers(q *question, virtual bool) bool {
	return (virtual || !q.virtual) && (c.stores == nil || !q.redis) && !c.missing
}

// onVirtual reports whether the contender is played in virtual time.
func (s settings) onVirtual(c *contender) bool {
	return s.virtual > 0 && c.dir != "" && c.stores == nil
}

// lowly lets the threads of real storms go before this goroutine: they take their time from a clock.
func lowly() {
	runtime.LockOSThread()
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 10) // of this thread
}

// all adds the results of the plays, some at a time. Each worker begins with a call of begin.
func (t *table) all(s settings, plays []play, parallel int, begin func()) error {
	var failed error
	var workers sync.WaitGroup
	next := make(chan play)
	for range parallel {
		workers.Go(func() {
			begin()
			for p := range next {
				r, err := s.play(p)
				t.mu.Lock()
				if err != nil {
					failed = errors.Join(failed, fmt.Errorf("%s, %s, seed %d: %w", p.contender.Name, p.question.Name, p.seed, err))
				} else {
					k := cell{p.contender.Name, p.question.Name, p.mode}
					t.cells[k] = append(t.cells[k], r)
					log.Printf("%s: two owners %s, late polls %d", p.folder(s.folder), text(r.two), r.late)
				}
				t.mu.Unlock()
			}
		})
	}
	for _, p := range plays {
		next <- p
	}
	close(next)
	workers.Wait()
	return failed
}

func (p play) folder(under string) string {
	name, _, _ := strings.Cut(strings.ReplaceAll(p.contender.Name, " ", "-"), ".")
	return filepath.Join(under, name, p.mode, p.question.Name, strconv.Itoa(p.seed))
}

// flags returns the flags of simulate that choose the contender.
func (s settings) flags(c *contender, care bool) []string {
	if c.node != "" {
		return []string{"--system", "election", "--criteria", "E1", "--node-cmd", filepath.Join(s.bin, c.node)}
	}
	command, flags := c.command, []string{"--lease-cmd"}
	switch {
	case s.onVirtual(c):
		command, flags = "./contenders/"+c.dir, []string{"--engine", "virtual", "--lease-go"}
	case c.dir != "":
		command = filepath.Join(s.bin, c.dir)
	}
	if care && c.option != "" {
		command = c.option + " " + command
	}
	if care && c.env {
		command = "CAREFUL=1 " + command
	}
	flags = append(flags, command)
	for _, store := range c.stores {
		flags = append(flags, "--store", store)
	}
	return flags
}

var at = regexp.MustCompile(`\bat: (\d+)ms`)

// scenario returns the file of the question. From the second seed on it is a copy, in which all faults begin later by a part of a second,
// so that they strike at other times between two renewals.
func (p play) scenario(dir string) (string, error) {
	file := "contenders/questions/" + p.question.Name + ".yaml"
	if p.seed == 1 {
		return file, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text = at.ReplaceAllFunc(text, func(found []byte) []byte {
		ms, _ := strconv.Atoi(string(at.FindSubmatch(found)[1]))
		return fmt.Appendf(nil, "at: %dms", ms+(p.seed-1)*618%1000)
	})
	file = filepath.Join(dir, p.question.Name+".yaml")
	return file, os.WriteFile(file, text, 0o644)
}

// builds holds the programs of Go adapters by their commands, each built once.
var builds sync.Map

// inVirtual plays in this process, because to build the adapter and to load its code take longer than the storm.
func (s settings) inVirtual(p play, scenario, dir string) error {
	storm, err := sim.Load(scenario)
	if err != nil {
		return err
	}
	flags := s.flags(p.contender, p.mode == careful)
	command := flags[len(flags)-1]
	storm.Engine, storm.Seed, storm.NodeCmd = sim.EngineVirtual, uint64(p.seed), sim.NodesOf(report.GoLease, strings.Fields(command))
	c, err := storm.Resolve()
	if err != nil {
		return err
	}
	build, _ := builds.LoadOrStore(command, sync.OnceValues(func() (guest.Starter, error) {
		return gonode.Build(context.Background(), c.NodeCmd)
	}))
	start, err := build.(func() (guest.Starter, error))()
	if err != nil {
		return err
	}
	engine := sim.NewVirtual(func(v *virtual.Config) { v.Guest = start })
	_, err = sim.Run(context.Background(), c, sim.Options{Engine: engine, Reports: dir})
	return err
}

// inReal plays in a process of simulate.
func (s settings) inReal(p play, scenario, dir string) error {
	args := []string{
		"--scenario", scenario, "--seed", strconv.Itoa(p.seed), "--quiet", "--no-html",
		"--report", dir,
	}
	storm := exec.Command(s.simulate, append(args, s.flags(p.contender, p.mode == careful)...)...)
	out, err := storm.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() < 3) { // 1 and 2 are verdicts
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// errUnhit is the error of a play whose fault hit nothing: nobody owned the lease in time, as on a busy machine.
var errUnhit = errors.New("no fault hit anything")

// play plays p, and once more if no fault hit anything.
func (s settings) play(p play) (result, error) {
	r, err := s.playOnce(p)
	if errors.Is(err, errUnhit) {
		r, err = s.playOnce(p)
	}
	return r, err
}

func (s settings) playOnce(p play) (result, error) {
	dir, err := filepath.Abs(p.folder(s.folder))
	run := filepath.Join(dir, fmt.Sprintf("%s-%d", p.question.Name, p.seed))
	if s.resume {
		if r, err := measure(run); err == nil && (r.faults > 0 || p.question.Name == calm) {
			return r, nil
		}
	}
	if err == nil {
		err = errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755))
	}
	if err != nil {
		return result{}, err
	}
	scenario, err := p.scenario(dir)
	if err != nil {
		return result{}, err
	}
	storm := s.inReal
	if s.onVirtual(p.contender) {
		storm = s.inVirtual
	}
	if err := storm(p, scenario, dir); err != nil {
		return result{}, err
	}
	r, err := measure(run)
	if err == nil && r.faults == 0 && p.question.Name != calm {
		err = errUnhit
	}
	return r, err
}
