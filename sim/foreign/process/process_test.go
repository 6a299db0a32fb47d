package process

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/sim/foreign"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// asker sends one command and stops after the answer.
type asker struct {
	asked bool
	got   foreign.Reply
}

func (a *asker) Next() (time.Duration, bool) { return 0, false }

func (a *asker) Step(in foreign.Input) foreign.Effects {
	switch {
	case in.Reply != nil:
		a.got = *in.Reply
		return foreign.Effects{Exit: true}
	case !a.asked:
		a.asked = true
		return foreign.Effects{Commands: []foreign.Command{{Seq: 7, Args: []string{"INCR", "n"}}}}
	}
	return foreign.Effects{}
}

func TestCommandIsAnswered(t *testing.T) {
	server := redistest.Start(t)
	t.Setenv("LEASESTORM_REDIS_URL", fmt.Sprintf("redis://%s", server.Client().Options().Addr))
	t.Setenv("LEASESTORM_TARGET_URL", "http://127.0.0.1:1")
	for _, key := range []string{"TTL", "ELECTION", "HEARTBEAT", "POLL", "POLL_TIMEOUT", "START_DELAY"} {
		t.Setenv("LEASESTORM_"+key+"_MS", "3000")
	}
	a := &asker{}
	var who Member
	code := Main(func(m Member) foreign.Machine {
		who = m
		return a
	})
	if n, _ := a.got.Value.(int64); code != 0 || a.got.Seq != 7 || a.got.Err != "" || n != 1 {
		t.Errorf("exit %d, reply %+v: want 0 and 1", code, a.got)
	}
	if who.TTL != 3*time.Second || who.Instance == "" {
		t.Errorf("it is told %+v", who)
	}
}

func TestSettingsAreNotGuessed(t *testing.T) {
	t.Setenv("LEASESTORM_REDIS_URL", "redis://127.0.0.1:1")
	t.Setenv("LEASESTORM_TTL_MS", "soon")
	code := Main(func(Member) foreign.Machine {
		t.Error("it runs all the same")
		return &asker{}
	})
	if code != 3 {
		t.Errorf("exit %d, want 3", code)
	}
}
