package mutant

import (
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

const (
	lateMost    = 5 * time.Second        // largest delay with which a busy host reads the stream of Redis
	shiftedMost = 100 * time.Millisecond // largest error of a stamp with which a broken node must still be found
	placed      = 200 * time.Millisecond // a wider interval is recorded as StreamLate (sim/real)
)

func TestLateStampsAccuseNobody(t *testing.T)    { honest(t, 20) }
func TestShiftedStampsHideNoMutant(t *testing.T) { caught(t, 5) }

func TestLateStampsAccuseNobodyLong(t *testing.T) {
	if testing.Short() {
		t.Skip("make long plays it")
	}
	honest(t, 2000)
}

func TestShiftedStampsHideNoMutantLong(t *testing.T) {
	if testing.Short() {
		t.Skip("make long plays it")
	}
	caught(t, 200)
}

// honest plays this many sound runs. No guarantee may pass with exact stamps and fail with those of a busy host.
func honest(t *testing.T, seeds uint64) {
	var mu sync.Mutex
	late, unknown := 0, 0
	eachSeed(seeds, func(seed uint64) {
		p, events := recorded(t, sim.Scenario{}, seed, nil)
		exact, busy := verdicts(t, p, events), verdicts(t, p, restamped(events, seed, lateMost))
		mu.Lock()
		defer mu.Unlock()
		for i, v := range busy {
			switch {
			case exact[i].Verdict != check.Pass:
			case v.Verdict == check.Fail:
				t.Errorf("seed %d: %s fails once the stream of Redis is read late: %s", seed, v.ID, v.Detail)
			case v.Verdict == check.Unknown:
				unknown++
			default:
				late++
			}
		}
	})
	t.Logf("%d seeds: of the verdicts that pass with exact stamps, %d pass and %d are unknown with late ones", seeds, late, unknown)
}

// caught shifts the stamps of this many runs that break one of G1 to G4. Nine in ten must still break it.
func caught(t *testing.T, runs int) {
	var broken []Mutant
	for _, m := range All() {
		if slices.Contains([]string{"G1", "G2", "G3", "G4"}, m.Breaks) && m.Seeds <= 60 && m.Scenario.Topology == "" {
			broken = append(broken, m)
		}
	}
	var mu sync.Mutex
	failed, still := 0, 0
	var missed []string
	eachSeed(uint64(runs*4), func(n uint64) {
		mu.Lock()
		enough := failed >= runs
		mu.Unlock()
		if enough {
			return
		}
		m, seed := broken[n%uint64(len(broken))], 1+n/uint64(len(broken))
		p, events := recorded(t, m.Scenario, seed, m.Bend)
		if !fails(verdicts(t, p, events), m.Breaks) {
			return
		}
		found := fails(verdicts(t, p, restamped(events, seed, shiftedMost)), m.Breaks)
		mu.Lock()
		defer mu.Unlock()
		if failed++; found {
			still++
		} else {
			missed = append(missed, m.Name)
		}
	})
	t.Logf("of %d broken runs %d are found with shifted stamps; missed: %v", failed, still, missed)
	if failed < runs || still*10 < failed*9 {
		t.Errorf("of %d broken runs (want %d) only %d are found with stamps shifted by up to %v; missed: %v", failed, runs, still,
			shiftedMost, missed)
	}
}

// eachSeed calls f with 1 to n, two at a time.
func eachSeed(n uint64, f func(seed uint64)) {
	seeds := make(chan uint64)
	var players sync.WaitGroup
	for range 2 {
		players.Go(func() {
			for seed := range seeds {
				f(seed)
			}
		})
	}
	for seed := range n {
		seeds <- seed + 1
	}
	close(seeds)
	players.Wait()
}

// recorded plays a seed and returns its events and the judge's parameters.
func recorded(t *testing.T, s sim.Scenario, seed uint64, bend sim.Breaker) (check.Params, []history.Event) {
	c, plan, err := s.Swarm(seed)
	if err != nil {
		t.Error(err)
		return check.Params{}, nil
	}
	v := virtual.Config{
		Nodes: c.Nodes, Sessions: c.Sessions, TTL: c.TTL, Renew: c.Renew, Discovery: c.Discovery, OpTimeout: c.RenewTimeout,
		Poll: c.Poll, PollTimeout: c.PollTimeout, Serve: c.Serve, LongPolls: c.LongPolls, Storm: c.Storm, Calm: c.Calm,
		Unannounced: c.Virtual.Unannounced, Net: c.Virtual.Net, Clock: c.Virtual.Clock,
	}
	if bend != nil {
		bend(&v)
	}
	var events []history.Event
	if _, err := virtual.Run(v, plan, seed, func(e history.Event) { events = append(events, e) }); err != nil {
		t.Error(err)
	}
	return check.Params{
		System: c.System, Nodes: c.Nodes, Sessions: c.Sessions, Timings: c.Timings, Duration: c.Duration(), Speed: c.Speed, Plan: plan,
		Tap: true, Counted: true, Redis: "server", // for a model, the judge expects exact stamps
	}, events
}

func verdicts(t *testing.T, p check.Params, events []history.Event) []check.Verdict {
	var inOrder iter.Seq2[history.Event, error] = func(yield func(history.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
	r, err := check.Judge(p, inOrder, nil)
	if err != nil {
		t.Error(err)
	}
	return r.Verdicts
}

func fails(all []check.Verdict, id string) bool {
	return slices.ContainsFunc(all, func(v check.Verdict) bool { return v.ID == id && v.Verdict == check.Fail })
}

// restamped returns the events as a host records them that reads the stream of Redis in batches, some of them late, by most at the latest.
// A batch has the stamp of its end, or all its stamps have one delay. Redis' order stays.
func restamped(events []history.Event, seed uint64, most time.Duration) []history.Event {
	random := rand.New(rand.NewPCG(seed, uint64(most)))
	var all []history.Event
	var from, to, delay, last int64 // of the batch; delay 0: it has one stamp
	for _, e := range events {
		if !e.Kind.OfRedis() {
			all = append(all, e)
			continue
		}
		if e.T >= to {
			wide := int64(most) / 100
			if random.IntN(50) == 0 {
				wide = int64(most)
			}
			from = max(e.T-random.Int64N(wide), to)
			to, delay = from+1+random.Int64N(wide), random.Int64N(2)*(1+random.Int64N(wide))
			if to <= e.T {
				to = e.T + 1
			}
		}
		stamp := to
		if delay != 0 {
			stamp = e.T + delay
		}
		if last = max(last, stamp); last-min(from, e.T) > int64(placed) {
			all = append(all, history.Event{T: min(from, e.T), Kind: history.StreamLate, Until: last})
		}
		e.T = last
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b history.Event) int { return int(min(1, max(-1, a.T-b.T))) })
	return all
}
