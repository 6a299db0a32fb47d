package real

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

// However often a host stalled before, a new stall is recorded.
func TestEveryStallIsTold(t *testing.T) {
	const many, each, last = 100_000, int64(6e6), int64(4e9)
	r := &run{rec: history.NewRecorder()}
	for i := range int64(many) {
		r.stalled(2*i*each, (2*i+1)*each)
	}
	r.stalled(2*many*each, 2*many*each+last)
	told := int64(0)
	for e := range r.rec.Events() {
		told += e.Until - e.T
	}
	if want := many*each + last; told != want {
		t.Errorf("%d ns of stalls are told, and there were %d", told, want)
	}
}

// The time that a container engine takes to send a signal is a stall. A prompt signal is none.
func TestASignalThatIsSentLateIsAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{clock: host.NewClock(), rec: history.NewRecorder()}
		for _, takes := range []time.Duration{time.Millisecond, time.Second} {
			began, sent := r.timed(nothing)
			began()
			<-time.After(takes)
			sent()
		}
		var told []time.Duration
		for e := range r.rec.Events() {
			told = append(told, time.Duration(e.Until-e.T))
		}
		if !slices.Equal(told, []time.Duration{time.Second}) {
			t.Errorf("stalls of %v are told, want one of 1s", told)
		}
	})
}

// A silence of Redis without a fault is a stall of about that length. If it exceeds a TTL, the run has no verdict. A silence under a fault
// is no stall.
func TestWhatRedisDoesNotRunIsAStall(t *testing.T) {
	const ms = time.Millisecond
	type times struct{ from, to time.Duration }
	for _, tt := range []struct {
		name          string
		silent, fault times
		refused       bool // its port is closed: a dial fails at once
		told          times
		starved       bool
	}{
		{name: "runs"},
		{name: "a moment", silent: times{1010 * ms, 1090 * ms}},
		{name: "stopped", silent: times{1010 * ms, 1960 * ms}, told: times{1000 * ms, 2000 * ms}},
		{name: "gone", silent: times{1010 * ms, 1960 * ms}, refused: true, told: times{1000 * ms, 2000 * ms}},
		{name: "under a fault", silent: times{1010 * ms, 1960 * ms}, fault: times{1005 * ms, 1970 * ms}},
		{name: "under a fault that has just ended", silent: times{1010 * ms, 1960 * ms}, fault: times{1005 * ms, 1955 * ms}},
		{name: "before a fault", silent: times{1010 * ms, 3960 * ms}, fault: times{2005 * ms, 4000 * ms}, told: times{1000 * ms, 2000 * ms}},
		{name: "after a fault", silent: times{1010 * ms, 4960 * ms}, fault: times{1005 * ms, 3000 * ms}, told: times{3000 * ms, 5000 * ms}},
		{name: "for a TTL", silent: times{1010 * ms, 3900 * ms}, told: times{1000 * ms, 4000 * ms}},
		{name: "for longer", silent: times{1010 * ms, 4800 * ms}, told: times{1000 * ms, 4800 * ms}, starved: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			now := func() int64 { return int64(time.Since(began)) }
			in := func(x times) bool { return now() >= int64(x.from) && now() < int64(x.to) }
			var first, last, sum int64
			starved := 0
			p := pulse{
				now: now, most: 3 * time.Second, waited: func() time.Duration { return 0 },
				ask: func() bool {
					if !in(tt.silent) {
						return true
					}
					if wait := min(lookEvery, tt.silent.to-time.Since(began)); !tt.refused {
						<-time.After(wait)
						return !in(tt.silent)
					}
					return false
				},
				underFault: func(since int64) bool {
					return tt.fault.to > 0 && now() >= int64(tt.fault.from) && since <= int64(tt.fault.to)
				},
				stalled: func(from, to int64) {
					if sum == 0 {
						first = from
					}
					sum, last = sum+to-from, to
				},
				abort: func(err error) {
					if starved++; !errors.Is(err, host.ErrNoVerdict) || !strings.Contains(err.Error(), "did not answer for 3.") {
						t.Errorf("%s: starves with %v", tt.name, err)
					}
				},
			}
			stop, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				p.follow(stop)
			}()
			<-time.After(6 * time.Second)
			close(stop)
			<-ended
			near := func(got int64, want time.Duration) bool {
				return (time.Duration(got) - want).Abs() <= lookEvery+pulseEvery
			}
			if !near(first, tt.told.from) || !near(last, tt.told.to) || sum != last-first || starved > 0 != tt.starved {
				t.Errorf("%s: a stall from %v to %v, %v together, starved %d times; want %v, %v", tt.name, time.Duration(first),
					time.Duration(last), time.Duration(sum), starved, tt.told, tt.starved)
			}
		})
	}
}

// Redis' wait for a core is a stall of that length, even if Redis answers in time or is under a fault.
func TestWhatRedisWaitsForACoreIsAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		waits := []time.Duration{host.StallMin, 40 * time.Millisecond}
		var told []int64
		p := pulse{
			ask: func() bool { return true }, now: func() int64 { return int64(time.Since(began)) }, abort: func(err error) { t.Error(err) },
			underFault: func(int64) bool { return true }, stalled: func(from, to int64) { told = append(told, from, to) }, most: time.Second,
			waited: func() (wait time.Duration) {
				if len(waits) > 0 {
					wait, waits = waits[0], waits[1:]
				}
				return wait
			},
		}
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			p.follow(stop)
		}()
		<-time.After(time.Second)
		close(stop)
		<-ended
		to := int64(2 * pulseEvery)
		if want := []int64{to - int64(40*time.Millisecond), to}; !slices.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
	})
}

func TestAStoppedRedisIsAStall(t *testing.T) {
	r := provision(t)
	cfg := config(t)
	var from, to time.Time
	cfg.Progress = func(p Progress) {
		if p.Phase != "storm" || !from.IsZero() {
			return
		}
		from = time.Now()
		if err := r.server.proc.Freeze(); err != nil {
			t.Error(err)
		}
		<-time.After(cfg.TTL / 2)
		if err := r.server.proc.Thaw(); err != nil {
			t.Error(err)
		}
		to = time.Now()
	}
	_, events := storm(t, r, cfg)
	sum, last := int64(0), int64(0)
	for _, e := range events {
		if e.Kind == history.Stall {
			sum, last = sum+max(0, e.Until-max(e.T, last)), max(e.Until, last)
		}
	}
	if from.IsZero() || sum < int64(to.Sub(from)-pulseEvery) {
		t.Errorf("Redis was stopped for %v, and %v of stalls are told", to.Sub(from), time.Duration(sum))
	}
}

func TestARedisThatIsStoppedForLongHasNoVerdict(t *testing.T) {
	r := provision(t)
	cfg := config(t, fault.Fault{At: 100 * time.Millisecond, Kind: fault.Cut, Target: "node-1", For: 300 * time.Millisecond})
	cfg.Storm, cfg.silentWithin = time.Minute, 0
	t.Cleanup(func() {
		if err := r.server.proc.Thaw(); err != nil {
			t.Error(err)
		}
	})
	stopped := false
	cfg.Progress = func(p Progress) {
		if p.Phase == "storm" && !stopped {
			stopped = true
			if err := r.server.proc.Freeze(); err != nil {
				t.Error(err)
			}
		}
	}
	_, err := Run(t.Context(), r, cfg, history.NewRecorder())
	if !errors.Is(err, host.ErrNoVerdict) || !strings.Contains(err.Error(), "longer than a TTL") {
		t.Errorf("a run whose Redis is stopped ends with %v", err)
	}
}
