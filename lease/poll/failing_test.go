package poll

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/lease"
)

// A session whose polls fail one after the other is warned of once, and so is its end told. Health counts it meanwhile.
func TestFailingPollsAreTold(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	core, log := observer.New(zapcore.InfoLevel)
	m, err := New(client, lease.Config{Logger: zap.New(core)}, Config{Poll: nothing})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Stop() })
	p := &publisher{id: id}
	m.publishers[id] = p
	away := errors.New("the target is away\n")
	for i, tt := range []struct {
		run    run
		told   string
		counts bool
	}{
		{run{outcome: ended, err: away}, "", false},
		{run{outcome: ended, err: away}, "", false},
		{run{outcome: ended}, "", false}, // an accident
		{run{outcome: ended, err: away}, "", false},
		{run{err: away}, "", false}, // a panic
		{run{outcome: cutOff, err: away}, "", false},
		{run{outcome: stopping, err: away}, "", false},
		{run{policy: policy.Unbegun}, "", false},
		{run{outcome: ended, err: away}, "pollsFail", true},
		{run{outcome: ended, err: away}, "", true},
		{run{policy: policy.Unbegun}, "", true},
		{run{outcome: ended}, "pollsSucceed", false},
		{run{outcome: ended}, "", false},
	} {
		tt.run.hold = &lease.Hold{}
		m.failing(p, &tt.run)
		m.log.Flush(t.Context())
		told := ""
		for _, e := range log.TakeAll() {
			told += e.ContextMap()["event"].(string)
		}
		h := m.failures(lease.Health{})
		if counts := strings.Contains(h.Reason, "polls of 1 sessions fail, as of "+id+": the target is away"); told != tt.told ||
			counts != tt.counts || !h.OK() || strings.Contains(h.Reason, "\n") {
			t.Errorf("%d: told %q, want %q; Health %q", i, told, tt.told, h.Reason)
		}
	}
	if h := m.failures(lease.Health{State: lease.HealthSilent}); h.Reason != "" {
		t.Errorf("silent: %q", h.Reason)
	}
}
