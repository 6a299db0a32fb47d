package poll

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/lease"
)

func cutOffs(log *observer.ObservedLogs) []observer.LoggedEntry {
	return log.FilterField(zap.String("event", "pollCutOff")).All()
}

// A target that takes longer than the timeout is never polled: that is warned of, by the name of the setting (EC-2).
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
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
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
			m, p, log := publishing(t, client, zapcore.WarnLevel)
			for _, o := range c.polls {
				m.judge(p, &run{hold: &lease.Lease{}, outcome: o})
			}
			m.log.Flush(t.Context())
			if n := len(cutOffs(log)); n != c.warnings {
				t.Errorf("%d warnings, wanted %d", n, c.warnings)
			}
			m.cutWarned = m.cutWarned.Add(-cutEvery)
			m.judge(p, &run{hold: &lease.Lease{}, outcome: cutOff})
			m.log.Flush(t.Context())
			if n := len(cutOffs(log)); p.cut >= cutMany && n != c.warnings+1 {
				t.Errorf("%d warnings a minute later, wanted %d", n, c.warnings+1)
			}
		})
	}
}

// What ends a poll's context decides what it counts as, unless it was done all the same.
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

// publishing returns a manager that is not started, with one publisher, and its log from that level upwards.
func publishing(t *testing.T, client redis.UniversalClient, from zapcore.Level) (*SessionManager, *publisher, *observer.ObservedLogs) {
	core, log := observer.New(from)
	m, err := New(client, lease.Config{Logger: zap.New(core)}, Config{Poll: nothing})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Stop() })
	p := &publisher{id: id}
	m.publishers[id] = p
	return m, p, log
}
