package virtual

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// Every kind of fault that the engine claims to injection is struck, shows in the history and, if it lasts, ends.
func TestEveryKindIsInjected(t *testing.T) {
	for _, kind := range fault.VirtualKinds() {
		t.Run(string(kind), func(t *testing.T) {
			f := fault.Fault{At: 5 * time.Second, Kind: kind, For: 2 * time.Second, Ms: 500, KBps: 10}
			cfg := Config{Nodes: 3, Sessions: 9, TTL: 3 * time.Second, Poll: time.Second, Storm: 20 * time.Second, Calm: 15 * time.Second}
			var began, ended int
			out, err := Run(cfg, fault.Plan{Faults: []fault.Fault{f}}, 1, func(e history.Event) {
				switch e.Kind {
				case history.FaultStart:
					began++
				case history.FaultEnd:
					ended++
				}
			})
			st := storm{timeline: &timeline{cfg: cfg}}
			if lasts := st.lasts(f) > 0; err != nil || began != 1 || ended > 1 || lasts != (ended == 1) || len(out.Skipped) > 0 {
				t.Errorf("began %d times, ended %d times, skipped %v, %v", began, ended, out.Skipped, err)
			}
			if out.Overlaps+out.Falls > 0 || out.Unowned > 0 {
				t.Errorf("%d overlaps, %d falls, %d unowned: %s", out.Overlaps, out.Falls, out.Unowned, out.First)
			}
		})
	}
}

func TestBadInput(t *testing.T) {
	good := Config{Nodes: 3, Sessions: 9}
	for _, c := range []struct {
		name string
		bend func(*Config)
		says string
	}{
		{"no nodes", func(c *Config) { c.Nodes = 0 }, "Nodes is 0"},
		{"negative sessions", func(c *Config) { c.Sessions = -1 }, "Sessions is -1"},
		{"TTL of microseconds", func(c *Config) { c.TTL = 10500 * time.Microsecond }, "TTL is 10.5ms"},
		{"renewal after expiry", func(c *Config) { c.Renew = time.Minute }, "Renew is 1m0s"},
		{"time-out above TTL", func(c *Config) { c.OpTimeout = time.Minute }, "no time for an answer (1m0s)"},
		{"negative storm", func(c *Config) { c.Storm = -1 }, "negative"},
		{"polls above TTL", func(c *Config) { c.Poll, c.PollTimeout = time.Second, time.Minute }, "longPolls"},
		{"mad clocks", func(c *Config) { c.Clock.Drift = 1 << 40 }, "Clock.Drift"},
	} {
		cfg := good
		c.bend(&cfg)
		_, err := Run(cfg, fault.Plan{}, 1, nil)
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want ErrConfig that says %q", c.name, err, c.says)
		}
	}
	_, err := Run(good, fault.Plan{Faults: []fault.Fault{{Kind: fault.RedisSentinel}}}, 1, nil)
	if !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("a fault that the engine has not: %v, want fault.ErrUnavailable", err)
	}
	_, err = Run(good, fault.Plan{Faults: []fault.Fault{{Kind: fault.Crash, At: -1}}}, 1, nil)
	if !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("a fault before the start: %v, want fault.ErrInvalid", err)
	}
}

// A target that is not there is skipped and said so; nothing panics.
func TestTargetsThatAreNotThere(t *testing.T) {
	out, err := Run(Config{Nodes: 2, Sessions: 2, Storm: time.Minute}, fault.Plan{Faults: []fault.Fault{
		{At: 1, Kind: fault.Crash, Target: fault.NodeTarget(77)},
		{At: 2, Kind: fault.SessionRemove, Target: fault.SessionTarget(77)},
		{At: 3, Kind: fault.Leave, Target: fault.NodeTarget(1)},
		{At: 30 * time.Second, Kind: fault.Freeze, Target: fault.NodeTarget(1), For: 1},
		{At: time.Hour, Kind: fault.RedisFlush},
	}}, 1, nil)
	if err != nil || len(out.Skipped) != 4 {
		t.Errorf("skipped %q, %v; want four", out.Skipped, err)
	}
}

// A replica that lags by nothing takes over with everything (the third acquisition is the cold start's).
func TestFailoverWithoutLag(t *testing.T) {
	out, err := Run(Config{Nodes: 2, Sessions: 2, Storm: time.Minute, Calm: time.Minute}, fault.Plan{Faults: []fault.Fault{
		{At: 30 * time.Second, Kind: fault.RedisFailover},
	}}, 1, nil)
	if err != nil || out.Acquires > 3 || out.Unowned != 0 || out.Overlaps+out.Falls != 0 {
		t.Errorf("%+v, %v; want the two terms to live on", out, err)
	}
}

// Long polls outlast the TTL while renewals succeed, and end with the first that does not, as in lease/poll.
func TestLongPolls(t *testing.T) {
	cfg := Config{
		Nodes: 1, Sessions: 1, TTL: 3 * time.Second, Poll: 20 * time.Second, PollTimeout: 15 * time.Second,
		Serve: 10 * time.Second, LongPolls: true, Storm: 60 * time.Second,
	}
	polls := func(plan fault.Plan) (served int, aborted, failed int64) {
		if _, err := Run(cfg, plan, 1, func(e history.Event) {
			switch e.Kind {
			case history.Served:
				served++
			case history.Aborted:
				aborted = e.T
			case history.RenewFailed:
				if failed == 0 {
					failed = e.T
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		return served, aborted, failed
	}
	if served, aborted, _ := polls(fault.Plan{}); served < 2 || aborted != 0 {
		t.Errorf("%d long polls were served, one aborted at %d; want them to outlast the TTL", served, aborted)
	}
	_, aborted, failed := polls(fault.Plan{Faults: []fault.Fault{{At: time.Second, Kind: fault.BlackHole, For: 10 * time.Second}}})
	if failed == 0 || aborted < failed || aborted > failed+int64(5*time.Millisecond) {
		t.Errorf("the renewal failed at %d, the poll ended at %d", failed, aborted)
	}
}
