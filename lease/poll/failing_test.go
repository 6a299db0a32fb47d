package poll

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap/zapcore"

	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/lease"
)

// A session whose polls fail one after the other gets one warning, and one entry when they succeed again. Health counts it meanwhile.
func TestFailingPollsAreTold(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	m, p, log := publishing(t, client, zapcore.InfoLevel)
	away := errors.New("away\nfor now")
	failed, good, panicked, unbegun := run{outcome: ended, err: away}, run{outcome: ended}, run{err: away}, run{policy: policy.Unbegun}
	cut, stopped := run{outcome: cutOff, err: away}, run{outcome: stopping, err: away}
	const begins, ends = 8, 11
	for i, r := range []run{failed, failed, good, failed, panicked, cut, stopped, unbegun, failed, failed, unbegun, good, good} {
		r.hold = &lease.Lease{}
		m.failing(p, &r)
		m.log.Flush(t.Context())
		told := ""
		for _, e := range log.TakeAll() {
			told += e.ContextMap()["event"].(string)
		}
		h, lasts := m.failures(lease.Health{State: lease.HealthOK}), begins <= i && i < ends
		if told != map[int]string{begins: "pollsFail", ends: "pollsSucceed"}[i] || !h.OK() || strings.Contains(h.Reason, "\n") ||
			strings.Contains(h.Reason, "polls of 1 sessions fail, as of "+id+": away\\u000afor now") != lasts {
			t.Errorf("%d: told %q; Health %q", i, told, h.Reason)
		}
	}
	if h := m.failures(lease.Health{State: lease.HealthSilent}); h.Reason != "" {
		t.Errorf("silent: %q", h.Reason)
	}
}
