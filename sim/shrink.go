package sim

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// ErrInterrupted means that the context ended before a smaller run was found.
var ErrInterrupted = errors.New("interrupted")

// ErrNothingBroke means that a run to shrink breaks no guarantee in virtual time.
var ErrNothingBroke = errors.New("nothing broke in virtual time")

// Shrunk is the smallest run found that still breaks the guarantee.
type Shrunk struct {
	Config           // includes its Plan
	Guarantee string // broken guarantee
	From      Size   // original size
	To        Size
	Runs      int  // number of runs
	Cut       bool // the context ended before the search did
}

// Size measures a run.
type Size struct {
	Faults, Nodes, Sessions int
	Duration                time.Duration
}

func (s Size) String() string {
	return fmt.Sprintf("%s, %s, %s, %v", plain.Count(s.Faults, "fault"), plain.Count(s.Nodes, "node"),
		plain.Count(s.Sessions, "session"), s.Duration)
}

func size(c Config) Size { return Size{len(c.Plan.Faults), c.Nodes, c.Sessions, c.Duration()} }

// Each smaller run gets several seeds, because another size interleaves differently. If the result stays large, runs get more seeds.
const (
	seedsTried = 3
	seedsRare  = 12
)

// Shrink searches for the fewest faults, nodes and sessions and the shortest time with which the run, which has a Plan, still breaks the
// guarantee ("": the first that it breaks). progress, if set, is called for each smaller run. When ctx ends, Shrink returns the smallest
// run so far, if any. An error wraps ErrNothingBroke, ErrInterrupted or ErrHarness.
func Shrink(ctx context.Context, c Config, guarantee string, bend Breaker, progress func(Size)) (Shrunk, error) {
	c, err := c.On(EngineVirtual)
	if err != nil {
		return Shrunk{}, err
	}
	c.Name, c.Faults = fmt.Sprintf("shrunk-%d", c.Seed), nil
	s := shrinker{ctx: ctx, bend: bend, progress: progress, best: c}
	if err := s.first(guarantee); err != nil {
		return Shrunk{}, err
	}
	from := size(c)
	s.seeds = seedsTried
	s.few(1)
	s.least()
	if len(s.best.Plan.Faults) > fewMax {
		s.seeds = seedsRare
		s.few(seedsRare)
		s.least()
	}
	cut := errors.Is(s.err, ErrInterrupted) && size(s.best) != from
	if s.err != nil && !cut {
		return Shrunk{}, s.err
	}
	s.best.Criteria = []string{s.guarantee}
	return Shrunk{Config: s.best, Guarantee: s.guarantee, From: from, To: size(s.best), Runs: s.runs, Cut: cut}, nil
}

type shrinker struct {
	ctx       context.Context
	bend      Breaker
	progress  func(Size)
	guarantee string
	best      Config
	verdict   check.Verdict
	seeds     uint64 // number of seeds that a smaller run gets
	runs      int
	err       error
}

// first runs the original run and determines which guarantee breaks.
func (s *shrinker) first(guarantee string) error {
	verdicts, err := s.judge(s.best)
	if err != nil {
		return err
	}
	for _, v := range verdicts {
		if v.Verdict == check.Fail && (guarantee == "" || guarantee == v.ID) {
			s.guarantee, s.verdict = v.ID, v
			return nil
		}
	}
	if guarantee != "" {
		return fmt.Errorf("%s: %w: %s with seed %d: shrink needs a run that breaks it", guarantee, ErrNothingBroke, size(s.best), s.best.Seed)
	}
	return fmt.Errorf("%w: %s with seed %d: shrink needs a run that does", ErrNothingBroke, size(s.best), s.best.Seed)
}

func (s *shrinker) judge(c Config) ([]check.Verdict, error) {
	s.runs++
	verdicts, out, _, err := JudgeVirtual(s.ctx, c, *c.Plan, s.bend)
	if out.Interrupted {
		return nil, fmt.Errorf("%w before a smaller run was found", ErrInterrupted)
	}
	return verdicts, err
}

func (s *shrinker) try(c Config) bool { return s.tryWith(c, s.seeds) }

func (s *shrinker) tryWith(c Config, seeds uint64) bool {
	if s.err != nil || c.Plan.Validate(c.limits()) != nil {
		return false
	}
	for i := range seeds {
		next := c
		next.Seed += i
		verdicts, err := s.judge(next)
		if err != nil {
			s.err = err
			return false
		}
		for _, v := range verdicts {
			if v.ID == s.guarantee && v.Verdict == check.Fail {
				s.best, s.verdict = next, v
				if s.progress != nil {
					s.progress(size(next))
				}
				return true
			}
		}
	}
	return false
}

func (s *shrinker) with(faults []fault.Fault) Config {
	c := s.best
	c.Plan = &fault.Plan{Version: fault.Version, Faults: faults}
	return c
}

// lasting returns the run with a storm of about that length. It drops or shortens the faults that do not fit.
func lasting(c Config, storm time.Duration) (Config, bool) {
	total := min(2*storm, storm+2*c.TTL+time.Second)
	total = max(total, DurationMin).Truncate(time.Millisecond)
	if (Scenario{Fixed: Fixed{Duration: total}}).phases(&c) != nil {
		return c, false
	}
	p := fault.Plan{Version: fault.Version}
	for _, f := range c.Plan.Faults {
		if f.At < c.Storm {
			if f.For > 0 {
				f.For = max(time.Millisecond, min(f.For, c.Storm-f.At))
			}
			p.Faults = append(p.Faults, f)
		}
	}
	c.Plan = &p
	return c, true
}

const fewMax = 3

func (s *shrinker) least() {
	for before := (Size{}); before != size(s.best) && s.err == nil; {
		before = size(s.best)
		s.shorten()
		s.fewer()
		s.drop()
		s.plain()
		s.earlier()
		s.briefer()
	}
}

// few tries no faults, then short runs of one to three consecutive faults before the break, the last ones first. Without few, dropping
// halves takes longest for such causes.
func (s *shrinker) few(seeds uint64) {
	if s.tryWith(s.with(nil), seeds) {
		return
	}
	faults := s.best.Plan.Faults
	for n := 1; n <= fewMax && n < len(faults); n++ {
		for i := len(faults) - n; i >= 0; i-- {
			some := slices.Clone(faults[i : i+n])
			if int64(some[0].At) > s.verdict.At {
				continue
			}
			var end time.Duration
			for j := range some {
				some[j].At -= faults[i].At
				end = max(end, some[j].At+some[j].For)
			}
			if c, ok := lasting(s.with(some), end+2*s.best.TTL); ok && c.Duration() < s.best.Duration() && s.tryWith(c, seeds) {
				return
			}
		}
	}
}

// shorten ends the run soon after the break, or shortens the storm in steps.
func (s *shrinker) shorten() {
	for _, sooner := range []time.Duration{2 * s.best.TTL, s.best.TTL, 0} {
		if c, ok := lasting(s.best, time.Duration(s.verdict.At)-sooner); ok && c.Duration() < s.best.Duration() && s.try(c) {
			break
		}
	}
	for _, parts := range []int64{2, 4, 8} {
		for {
			c, ok := lasting(s.best, time.Duration(int64(s.best.Storm)/parts*(parts-1)))
			if !ok || c.Duration() >= s.best.Duration() || !s.try(c) {
				break
			}
		}
	}
}

// drop removes faults in halves, quarters and so on, down to single ones.
func (s *shrinker) drop() {
	for chunk := max(1, len(s.best.Plan.Faults)/2); ; chunk = max(1, chunk/2) {
		for i := 0; i < len(s.best.Plan.Faults); {
			faults := s.best.Plan.Faults
			rest := slices.Concat(faults[:i], faults[min(i+chunk, len(faults)):])
			if !s.try(s.with(rest)) {
				i += chunk
			}
		}
		if chunk == 1 {
			return
		}
	}
}

func (s *shrinker) fewer() {
	for n := 1; n < s.best.Nodes && s.err == nil; n += max(1, n/4) {
		c := s.with(renumber(s.best.Plan.Faults, s.best.Nodes, n))
		if c.Nodes = n; s.try(c) {
			break
		}
	}
	for m := 1; m < s.best.Sessions && s.err == nil; m += max(1, m/2) {
		faults := slices.Clone(s.best.Plan.Faults)
		for i, f := range faults {
			if j, ok := fault.SessionIndex(f.Target); ok {
				faults[i].Target = fault.SessionTarget((j-1)%m + 1)
			}
		}
		c := s.with(faults)
		if c.Sessions = m; s.try(c) {
			break
		}
	}
}

// renumber maps targets from old initial nodes to n, in order of first use: initial nodes to 1 … n, and joined nodes to later slots.
func renumber(faults []fault.Fault, old, n int) []fault.Fault {
	slots := map[int]int{}
	first, joined := 0, n
	out := slices.Clone(faults)
	for i, f := range out {
		j, ok := fault.NodeIndex(f.Target)
		if !ok {
			continue
		}
		if _, seen := slots[j]; !seen {
			if j <= old {
				slots[j] = first%n + 1
				first++
			} else {
				joined++
				slots[j] = joined
			}
		}
		out[i].Target = fault.NodeTarget(slots[j])
	}
	return out
}

func (s *shrinker) plain() {
	for _, bend := range []func(*Virtual){
		func(v *Virtual) { *v = Virtual{} },
		func(v *Virtual) { v.Net = Virtual{}.Net },
		func(v *Virtual) { v.Clock = Virtual{}.Clock },
		func(v *Virtual) { v.Unannounced = false },
		func(v *Virtual) { v.Local, v.Emptied = false, "" },
	} {
		c := s.best
		if bend(&c.Virtual); c.Virtual != s.best.Virtual {
			s.try(c)
		}
	}
}

// earlier moves each fault, and all later ones, towards the start of the storm.
func (s *shrinker) earlier() {
	for i := range s.best.Plan.Faults {
		for _, part := range []time.Duration{1, 2, 4} {
			shift := gapBefore(s.best.Plan.Faults, i) / part
			if shift < s.best.TTL/20 {
				break
			}
			faults := shifted(s.best.Plan.Faults, i, shift)
			c, ok := lasting(s.with(faults), s.best.Storm-shift)
			if s.try(s.with(faults)) || ok && s.try(c) {
				break
			}
		}
	}
	s.shorten()
}

// gapBefore returns the time between a fault and the one before it, or the start of the storm.
func gapBefore(faults []fault.Fault, i int) time.Duration {
	if i == 0 {
		return faults[i].At
	}
	return faults[i].At - faults[i-1].At
}

// shifted returns the faults, from the i-th on that much earlier.
func shifted(faults []fault.Fault, i int, shift time.Duration) []fault.Fault {
	faults = slices.Clone(faults)
	for j := i; j < len(faults); j++ {
		faults[j].At = (faults[j].At - shift).Truncate(time.Millisecond)
	}
	return faults
}

func (s *shrinker) briefer() {
	for i := range s.best.Plan.Faults {
		for s.best.Plan.Faults[i].For >= s.best.TTL/10 {
			faults := slices.Clone(s.best.Plan.Faults)
			faults[i].For = (faults[i].For / 2).Truncate(time.Millisecond)
			if !s.try(s.with(faults)) {
				break
			}
		}
	}
}

const realTTL = 3 * time.Second

// Real returns the smallest run for the real engine, with a TTL of at most 3 s and enough time for that engine's delays. The error names
// settings that only the virtual engine has.
func (s Shrunk) Real() (Config, error) {
	c, err := s.On(EngineReal)
	if err != nil {
		return c, err
	}
	speed := max(1, float64(c.TTL)/float64(realTTL))
	duration := max(c.Duration(), c.Storm+2*c.TTL) + time.Duration(float64(time.Second)*speed)
	return Scenario{
		Name: c.Name + "-real", System: c.System, Nodes: c.Nodes, Sessions: c.Sessions, Speed: speed, Seed: c.Seed,
		Timings: Timings{
			TTL: c.TTL, Renew: c.Renew, Heartbeat: c.Heartbeat, Discovery: c.Discovery, Poll: c.Poll, PollTimeout: c.PollTimeout,
			Serve: max(c.Serve, time.Duration(speed*float64(time.Millisecond))),
		},
		Duration: max(duration, time.Duration(float64(DurationMin)*speed)), LongPolls: c.LongPolls, Plan: c.Plan.Faults,
		Criteria: c.Criteria,
	}.Resolve()
}

// ShrunkFile is a short scenario with its plan, in the smallest run's folder.
const ShrunkFile = "shrunk.yaml"

// Save repeats the smallest run in a new folder under reports, and adds ShrunkFile.
func (s Shrunk) Save(ctx context.Context, reports string, bend Breaker) (Result, error) {
	r, err := Run(ctx, s.Config, Options{Engine: NewVirtual(bend), Reports: reports})
	if err != nil {
		return r, err
	}
	return r, s.saveScenario(filepath.Join(r.Dir, ShrunkFile))
}

func (s Shrunk) saveScenario(file string) error {
	plain, err := Scenario{Speed: 1, Timings: Timings{TTL: s.TTL}, Seed: s.Seed}.Resolve()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrHarness, err)
	}
	y := s.Config.yaml()
	if y.System == SystemPolling {
		y.System = ""
	}
	t, usual := y.Timings, plain.Timings
	usual.TTL, usual.Heartbeat, usual.PollTimeout = DefaultTTL, s.Renew, min(s.Poll, s.TTL/3).Truncate(time.Millisecond)
	for _, d := range t.fields(&usual) {
		if deref(*d.given) == *d.value {
			*d.given = nil
		}
	}
	if *t == (timingsYAML{}) {
		y.Timings = nil
	}
	y.Plan = s.Plan.Faults
	head := fmt.Sprintf("# Breaks %s. Shrunk from %s.\n", s.Guarantee, s.From)
	if len(y.Plan) == 0 {
		head += "plan: []\n" // an absent plan would be drawn
	}
	return y.save(file, head)
}
