package poll

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/lease"
)

// If a target needs longer than the timeout, no poll succeeds. The log then warns with the name of the setting.
func TestPollsThatAreCutOffAreWarnedOf(t *testing.T) {
	b := newBench(t)
	b.start(Config{Interval: 10 * time.Millisecond, Timeout: 10 * time.Millisecond,
		Poll: func(ctx context.Context, _ Session) error {
			<-ctx.Done()
			return ctx.Err()
		}})
	warned := func() []observer.LoggedEntry { return b.log.FilterField(zap.String("event", "pollsFail")).All() }
	b.until("it is warned of", func() bool { return len(warned()) > 0 })
	e := warned()[0]
	fields := e.ContextMap()
	if e.Level != zapcore.WarnLevel || fields["endpoint"] != id || !strings.Contains(fields["error"].(string), "than 10ms, set a longer poll.Config.Timeout") {
		t.Errorf("%v %s %v", e.Level, e.Message, fields)
	}
}

// The end of a poll's context decides its outcome, unless the poll succeeded.
func TestOutcomes(t *testing.T) {
	over, cancelOver := context.WithTimeout(t.Context(), 0)
	defer cancelOver()
	lost, cancel := context.WithCancelCause(t.Context())
	cancel(ErrUncertain)
	for _, c := range []struct {
		ctx          context.Context
		err          error
		cut, stopped bool
	}{
		{t.Context(), nil, false, false}, {t.Context(), ErrFenced, false, false}, {over, nil, false, false},
		{over, context.DeadlineExceeded, true, false}, {lost, context.Canceled, false, true},
	} {
		got, stopped := outcomeOf(c.ctx, c.err, time.Second)
		if !errors.Is(got, c.err) || stopped != c.stopped || (got != c.err) != c.cut { //nolint:errorlint // whether it is wrapped
			t.Errorf("%v, %v: %v, %v", c.ctx.Err(), c.err, got, stopped)
		}
	}
}

// The default timeout follows from the TTL alone, and long polls have none.
func TestTimeoutDefault(t *testing.T) {
	for _, c := range []struct {
		lease lease.Config
		poll  Config
		want  time.Duration
	}{
		{lease.Config{}, Config{Poll: nothing}, 10 * time.Second},
		{lease.Config{TTL: 3 * time.Second}, Config{Poll: nothing, Interval: 10 * time.Millisecond}, time.Second},
		{lease.Config{}, Config{Poll: nothing, Timeout: time.Second}, time.Second},
	} {
		if got, err := c.poll.withDefaults(c.lease); err != nil || got.Timeout != c.want {
			t.Errorf("TTL %v, interval %v: %v, %v; wanted %v", c.lease.TTL, c.poll.Interval, got.Timeout, err, c.want)
		}
	}
}

// publishing returns the warnings of one publisher, and their log from this level upwards.
func publishing(from zapcore.Level) (*warnings, *publisher, *observer.ObservedLogs) {
	core, log := observer.New(from)
	p := &publisher{id: id}
	return &warnings{log: zap.New(core), publishers: map[string]*publisher{id: p}}, p, log
}

// A session whose polls fail in a row has one warning, and one entry when they succeed again. Health counts it meanwhile.
func TestFailingPollsAreTold(t *testing.T) {
	w, p, log := publishing(zapcore.InfoLevel)
	away := errors.New("away\nfor now")
	failed, good, unbegun, stopped := run{err: away}, run{}, run{policy: policy.Unbegun}, run{err: away, stopped: true}
	const begins, ends = 8, 11
	for i, r := range []run{failed, failed, good, failed, stopped, failed, stopped, unbegun, failed, failed, unbegun, good, good} {
		r.hold = &lease.Lease{}
		w.judge(p, &r)
		told := ""
		for _, e := range log.TakeAll() {
			told += e.ContextMap()["event"].(string)
		}
		h, lasts := w.failures(lease.Health{State: lease.HealthOK}), begins <= i && i < ends
		if told != map[int]string{begins: "pollsFail", ends: "pollsSucceed"}[i] || !h.OK() || strings.Contains(h.Reason, "\n") ||
			strings.Contains(h.Reason, "polls of 1 sessions fail, such as "+id+": away\\u000afor now") != lasts {
			t.Errorf("%d: told %q; Health %q", i, told, h.Reason)
		}
	}
	if h := w.failures(lease.Health{State: lease.HealthSilent}); h.Reason != "" {
		t.Errorf("silent: %q", h.Reason)
	}
}
