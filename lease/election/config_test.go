package election

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	rules "github.com/leasestorm/leasestorm/internal/core/election"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
)

func TestSettingsOfSovereign(t *testing.T) {
	c := Sovereign()
	if _, _, err := c.Shared(); err != nil {
		t.Fatal(err)
	}
	if c.LeaderKey != "sovereign:leader" || c.HeartbeatPrefix != "sovereign:heartbeat:" || c.EpochKey != "sovereign:epoch" ||
		c.Channel != "sovereign:notify" || c.LeaderTTL != 30*time.Second || c.ElectionInterval != 15*time.Second ||
		c.HeartbeatInterval != 10*time.Second || c.StartDelayMax != 10*time.Second {
		t.Errorf("%+v", c)
	}
	for range 100 {
		if d := c.startDelay(); d < 0 || d >= int64(10*time.Second) {
			t.Errorf("start delay %v", time.Duration(d))
		}
	}
}

func TestDefaults(t *testing.T) {
	c := Config{}.withDefaults()
	if err := c.validate(); err != nil {
		t.Fatal(err)
	}
	if c.LeaderKey != "election:leader" || c.HeartbeatPrefix != "election:heartbeat:" || c.EpochKey != "election:epoch" ||
		c.Channel != "election:notify" || c.LeaderTTL != 30*time.Second || c.ElectionInterval != 15*time.Second ||
		c.HeartbeatInterval != 10*time.Second || c.startDelay() != 0 {
		t.Errorf("%+v", c)
	}
}

// The constants have literal values for go doc. States and kinds of events are converted from those of the rules.
func TestConstantsAreThoseOfTheRules(t *testing.T) {
	for s, r := range map[State]rules.State{StateFollower: rules.Follower, StateCandidate: rules.Candidate, StateLeader: rules.Leader} {
		if s != State(r) {
			t.Errorf("%v is %d, the rules have %d", r, s, r)
		}
	}
	for k, r := range map[EventKind]rules.EventKind{
		EventStateChanged: rules.StateChanged, EventLeadershipAcquired: rules.LeadershipAcquired,
		EventLeadershipLost: rules.LeadershipLost, EventElectionFailed: rules.ElectionFailed, EventLeaderChanged: rules.LeaderChanged,
		EventHeartbeatStale: rules.HeartbeatStale, EventHeartbeatInvalid: rules.HeartbeatInvalid,
		EventDuplicateInstance: rules.DuplicateInstance,
	} {
		if k != EventKind(r) {
			t.Errorf("%v is %d, the rules have %d", k, k, r)
		}
	}
}

func TestContradictionsAreRefused(t *testing.T) {
	long := strings.Repeat("x", 513)
	for _, tt := range []struct {
		name string
		c    Config
		want string // part of the message
	}{
		{"long leader key", Config{LeaderKey: long}, "LeaderKey"},
		{"leader key with a space", Config{LeaderKey: "a b"}, "LeaderKey"},
		{"leader key that is no UTF-8", Config{LeaderKey: "a\xff"}, "LeaderKey"},
		{"leader key among the heartbeats", Config{LeaderKey: "election:heartbeat:leader"}, "heartbeat"},
		{"leader key that is the epoch's", Config{LeaderKey: "x", EpochKey: "x"}, "epoch"},
		{"fence among the heartbeats", Config{HeartbeatPrefix: "{election:leader}:fenc", InstanceID: "e"}, "heartbeat"},
		{"fence among the heartbeats of another key", Config{LeaderKey: "x", HeartbeatPrefix: "{x}:"}, "heartbeat"},
		{"epoch key that is a fence's", Config{LeaderKey: "x", EpochKey: "{x}:fence"}, "fence"},
		{"leader key that is a fence's", Config{LeaderKey: "x:fence"}, "fence"},
		{"long heartbeat prefix", Config{HeartbeatPrefix: long}, "HeartbeatPrefix"},
		{"heartbeat prefix with a newline", Config{HeartbeatPrefix: "a\n"}, "HeartbeatPrefix"},
		{"epoch key with a space", Config{EpochKey: "a b"}, "EpochKey"},
		{"channel with a tab", Config{Channel: "a\tb"}, "Channel"},
		{"long instance", Config{InstanceID: long}, "InstanceID"},
		{"huge instance", Config{InstanceID: strings.Repeat("x", 1<<20)}, "InstanceID"},
		{"instance with a space", Config{InstanceID: "a b"}, "InstanceID"},
		{"interval = TTL", Config{ElectionInterval: 30 * time.Second}, "ElectionInterval"},
		{"negative interval", Config{ElectionInterval: -1}, "ElectionInterval"},
		{"heartbeat = TTL", Config{HeartbeatInterval: 30 * time.Second}, "HeartbeatInterval"},
		{"negative heartbeat", Config{HeartbeatInterval: -time.Second}, "HeartbeatInterval"},
		{"negative start delay", Config{StartDelayMax: -time.Second}, "StartDelayMax"},
		{"negative drain", Config{DrainTimeout: -time.Second}, "DrainTimeout"},
		{"tiny TTL", Config{LeaderTTL: time.Millisecond}, "TTL"},
		{"negative TTL", Config{LeaderTTL: -1}, ": LeaderTTL is -1ns"},
		{"TTL of a nanosecond", Config{LeaderTTL: 1}, ": LeaderTTL is 1ns"},
		{"TTL of one and a half milliseconds", Config{LeaderTTL: 1500 * time.Microsecond}, ": LeaderTTL is 1.5ms"},
		{"TTL of a year", Config{LeaderTTL: 8760 * time.Hour}, ": LeaderTTL is 8760h0m0s"},
		{"negative renewal", Config{RenewInterval: -5}, ": RenewInterval is -5ns"},
		{"negative time-out", Config{OpTimeout: -5}, ": OpTimeout is -5ns"},
		{"renewal = TTL", Config{RenewInterval: 30 * time.Second}, "RenewInterval"},
		{"no time for an answer", Config{OpTimeout: 25 * time.Second}, "OpTimeout"},
		{"short quarantine", Config{Quarantine: time.Second}, "Quarantine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := New(unused(t), tt.c)
			if !errors.Is(err, lease.ErrInvalidConfig) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New = %v, %v; want ErrInvalidConfig that names %s", e, err, tt.want)
			}
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
	if e, err := New(nil, Config{}); !errors.Is(err, lease.ErrInvalidConfig) {
		t.Errorf("New without a client = %v, %v", e, err)
	}
	if err := admin.Bootstrap(t.Context(), nil, Config{}); !errors.Is(err, lease.ErrInvalidConfig) {
		t.Errorf("Bootstrap without a client: %v", err)
	}
	if err := admin.Bootstrap(t.Context(), unused(t), Config{LeaderKey: "a b"}); !errors.Is(err, lease.ErrInvalidConfig) {
		t.Errorf("Bootstrap: %v", err)
	}
}

func TestOneMembershipAProcess(t *testing.T) {
	g, err := NewGroup(unused(t), Config{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := g.Election("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Election("a"); !errors.Is(err, lease.ErrInvalidConfig) {
		t.Errorf("the same election twice: %v", err)
	}
	if _, err := g.Election("b c"); !errors.Is(err, lease.ErrInvalidConfig) {
		t.Errorf("a leader key with a space: %v", err)
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Election("a"); err != nil {
		t.Errorf("after Stop: %v", err)
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Election("d"); !errors.Is(err, lease.ErrStopped) {
		t.Errorf("after Group.Stop: %v", err)
	}
	if err := e.Start(t.Context()); !errors.Is(err, lease.ErrStopped) {
		t.Errorf("Start after Stop: %v", err)
	}
}

// unused returns a client that is never used.
func unused(t *testing.T) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Bootstrap serves every system. With an election's Config it declares the election's own epoch, and a member leads at once.
func TestBootstrapOfAnElection(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	cfg := patient("a")
	cfg.LeaderTTL = time.Minute // longer than the test waits
	var fleet admin.Fleet = cfg
	if err := admin.Bootstrap(t.Context(), client, fleet); err != nil {
		t.Fatal(err)
	}
	join(t, client, cfg).wait(EventLeadershipAcquired)
}
