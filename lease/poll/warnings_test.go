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

func cutOffs(log *observer.ObservedLogs) []observer.LoggedEntry {
	return log.FilterField(zap.String("event", "pollCutOff")).All()
}

// If a target needs longer than the timeout, no poll succeeds. The log then warns with the name of the setting.
func TestPollsThatAreCutOffAreWarnedOf(t *testing.T) {
	b := newBench(t)
	b.start(Config{Interval: 10 * time.Millisecond, Timeout: 10 * time.Millisecond,
		Poll: func(ctx context.Context, _ Session) error {
			<-ctx.Done()
			return ctx.Err()
		}})
	b.until("it is warned of", func() bool { return len(cutOffs(b.log)) > 0 })
	e := cutOffs(b.log)[0]
	fields := e.ContextMap()
	if e.Level != zapcore.WarnLevel || fields["endpoint"] != id || fields["timeout"] != int64(10) ||
		fields["inARow"] != int64(cutMany) || fields["sessions"] != int64(1) {
		t.Errorf("%v %s %v", e.Level, e.Message, fields)
	}
}

func TestWhatIsCutOff(t *testing.T) {
	for _, c := range []struct {
		name     string
		polls    []outcome
		warnings int
	}{
		{"twice is an accident", []outcome{cutOff, cutOff}, 0},
		{"three times is not", []outcome{cutOff, cutOff, cutOff}, 1},
		{"one that ends by itself in between", []outcome{cutOff, cutOff, ended, cutOff, cutOff}, 0},
		{"one that another thing ends in between", []outcome{cutOff, cutOff, stopping, cutOff}, 1},
		{"not more often than once a minute", []outcome{cutOff, cutOff, cutOff, cutOff, cutOff}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, p, log := publishing(zapcore.WarnLevel)
			for _, o := range c.polls {
				w.judge(p, &run{hold: &lease.Lease{}, outcome: o})
			}
			if n := len(cutOffs(log)); n != c.warnings {
				t.Errorf("%d warnings, wanted %d", n, c.warnings)
			}
			w.cutWarned = w.cutWarned.Add(-cutEvery)
			w.judge(p, &run{hold: &lease.Lease{}, outcome: cutOff})
			if n := len(cutOffs(log)); p.cut >= cutMany && n != c.warnings+1 {
				t.Errorf("%d warnings a minute later, wanted %d", n, c.warnings+1)
			}
		})
	}
}

// The end of a poll's context decides its outcome, unless the poll succeeded.
func TestOutcomes(t *testing.T) {
	over, cancelOver := context.WithTimeout(t.Context(), 0)
	defer cancelOver()
	lost, cancel := context.WithCancelCause(t.Context())
	cancel(ErrUncertain)
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want outcome
	}{
		{t.Context(), nil, ended}, {t.Context(), ErrFenced, ended}, {over, nil, ended}, {over, context.DeadlineExceeded, cutOff},
		{lost, context.Canceled, stopping},
	} {
		if got := outcomeOf(c.ctx, c.err); got != c.want {
			t.Errorf("%v, %v: %v, wanted %v", c.ctx.Err(), c.err, got, c.want)
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
	failed, good, panicked, unbegun := run{outcome: ended, err: away}, run{outcome: ended}, run{err: away}, run{policy: policy.Unbegun}
	cut, stopped := run{outcome: cutOff, err: away}, run{outcome: stopping, err: away}
	const begins, ends = 8, 11
	for i, r := range []run{failed, failed, good, failed, panicked, cut, stopped, unbegun, failed, failed, unbegun, good, good} {
		r.hold = &lease.Lease{}
		w.failing(p, &r)
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
