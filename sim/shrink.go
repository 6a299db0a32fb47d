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

// ErrInterrupted: the context ended before a smaller run was found.
var ErrInterrupted = errors.New("interrupted")

// ErrNothingBroke means that a run which was to be shrunk breaks no guarantee in virtual time.
var ErrNothingBroke = errors.New("nothing broke in virtual time")

// Shrunk is the smallest run found that still breaks the guarantee.
type Shrunk struct {
	Config           // with its Plan
	Guarantee string // that it breaks
	From      Size   // what it was
	To        Size
	Runs      int           // tried
	Cut       bool          // the context ended before nothing smaller was left to try
	Verdict   check.Verdict // of Guarantee, in the smallest run
}

// Size is how large a run is.
type Size struct {
	Faults, Nodes, Sessions int
	Duration                time.Duration
}

func (s Size) String() string {
	return fmt.Sprintf("%s, %s, %s, %v", plain.Count(s.Faults, "fault"), plain.Count(s.Nodes, "node"),
		plain.Count(s.Sessions, "session"), s.Duration)
}

func size(c Config) Size { return Size{len(c.Plan.Faults), c.Nodes, c.Sessions, c.Duration()} }

// A smaller run is given several seeds to break: another size is another interleaving. What is still large when nothing smaller
// breaks is given more: there it was a rare one.
const (
	seedsTried = 3
	seedsRare  = 12
)

// Shrink looks for the fewest faults, nodes and sessions and the shortest time with which the run, which has a Plan, still
// breaks the guarantee ("": the first that it breaks). progress is told of each smaller run; nil: not. When ctx ends, it
// returns the smallest run found by then, if one was. The error wraps ErrNothingBroke, ErrInterrupted or ErrHarness.
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
	return Shrunk{
		Config: s.best, Guarantee: s.guarantee, From: from, To: size(s.best), Runs: s.runs, Cut: cut, Verdict: s.verdict,
	}, nil
}

// shrinker holds the smallest run that breaks the guarantee so far.
type shrinker struct {
	ctx       context.Context
	bend      Breaker
	progress  func(Size)
	guarantee string
	best      Config
	verdict   check.Verdict
	seeds     uint64 // that a smaller run is given
	runs      int
	err       error
}

// first runs what is to be shrunk, and settles which guarantee it breaks.
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

// try takes the run for the best if it breaks the guarantee too.
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

// with returns the best run with other faults.
func (s *shrinker) with(faults []fault.Fault) Config {
	c := s.best
	c.Plan = &fault.Plan{Version: fault.Version, Faults: faults}
	return c
}

// lasting returns the run with a storm of about that length, cut where its faults do not fit.
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

// fewMax is how many faults in a row may be what breaks, for a plan of many to be tried by its parts.
const fewMax = 3

// least goes on until nothing that is smaller breaks.
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

// few tries no faults at all, then short runs of one fault after the other alone, of two in a row and of three, those before
// the break first: that is where leaving out halves takes longest.
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

// shorten ends the run soon after what broke, or halves it.
func (s *shrinker) shorten() {
	for _, e := range s.verdict.Evidence {
		if c, ok := lasting(s.best, time.Duration(e.T)); ok && c.Duration() < s.best.Duration() && s.try(c) {
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

// drop leaves faults out: halves, quarters, and so on down to single ones.
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

// fewer leaves nodes and sessions out; the faults' targets are numbered anew.
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

// renumber maps the targets of a fleet that began with old nodes to one that begins with n: in the order of their first
// use, those of the start to 1 … n and those that joined to the slots behind.
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

// plain tries exact clocks, a good network and a Redis that was bootstrapped.
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

// earlier moves the faults towards the start of the storm, all of them together and each behind the one before.
func (s *shrinker) earlier() {
	for i := range s.best.Plan.Faults {
		for _, part := range []time.Duration{0, 2, 4} {
			faults := slices.Clone(s.best.Plan.Faults)
			var before time.Duration
			if i > 0 {
				before = faults[i-1].At
			}
			gap := faults[i].At - before
			shift := gap
			if part > 0 {
				shift = gap / part
			}
			if shift < s.best.TTL/20 {
				break
			}
			for j := i; j < len(faults); j++ {
				faults[j].At = (faults[j].At - shift).Truncate(time.Millisecond)
			}
			c, ok := lasting(s.with(faults), s.best.Storm-shift)
			if s.try(s.with(faults)) || ok && s.try(c) {
				break
			}
		}
	}
	s.shorten()
}

// briefer halves how long faults last.
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

// realTTL is the TTL to which Real brings a longer one down.
const realTTL = 3 * time.Second

// Real returns the smallest run for the real engine, made faster so that its TTL is at most 3 s, and long enough for what
// takes longer there. The error says what only virtual time has.
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

// ShrunkFile is the scenario in a few lines, with its plan, in the smallest run's folder.
const ShrunkFile = "shrunk.yaml"

// Save runs the smallest run once more into a folder of its own under reports, with ShrunkFile.
func (s Shrunk) Save(ctx context.Context, reports string, bend Breaker) (Result, error) {
	r, err := Run(ctx, s.Config, Options{Engine: NewVirtual(bend), Reports: reports})
	if err != nil {
		return r, err
	}
	return r, s.saveScenario(filepath.Join(r.Dir, ShrunkFile))
}

// saveScenario writes the scenario with its plan, and leaves out what is the default.
func (s Shrunk) saveScenario(file string) error {
	plain, err := Scenario{Speed: 1, Timings: Timings{TTL: s.TTL}, Seed: s.Seed}.Resolve()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrHarness, err)
	}
	y := s.Config.yaml()
	if y.System == SystemPolling {
		y.System = ""
	}
	t := y.Timings
	for _, d := range []struct {
		is       **time.Duration
		ours, by time.Duration
	}{
		{&t.TTL, s.TTL, TTLDefault}, {&t.Renew, s.Renew, plain.Renew}, {&t.Heartbeat, s.Heartbeat, s.Renew},
		{&t.Discovery, s.Discovery, plain.Discovery}, {&t.Poll, s.Poll, plain.Poll},
		{&t.PollTimeout, s.PollTimeout, min(s.Poll, s.TTL/3).Truncate(time.Millisecond)}, {&t.Serve, s.Serve, plain.Serve},
	} {
		if d.ours == d.by {
			*d.is = nil
		}
	}
	if *t == (timingsYAML{}) {
		y.Timings = nil
	}
	y.Plan = s.Plan.Faults
	head := fmt.Sprintf("# Breaks %s. Shrunk from %s.\n", s.Guarantee, s.From)
	if len(y.Plan) == 0 {
		head += "plan: []\n" // no faults, not drawn ones
	}
	return y.save(file, head)
}
