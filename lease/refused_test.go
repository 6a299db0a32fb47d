package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// An answer to another kind of request clears the older errors that it disproves.
func TestWhatAnAnswerClears(t *testing.T) {
	now := time.Now()
	refused := func(words string) error { return redisstore.Cause(redisError(words)) }
	granted := &core.Answer{Results: []core.Result{{Outcome: core.OutGranted}}}
	renewed := &core.Answer{Results: []core.Result{{Outcome: core.OutRenewed}}}
	held := &core.Answer{Results: []core.Result{{Outcome: core.OutHeld}}}
	for name, tt := range map[string]struct {
		err    error
		answer *core.Answer
		sent   time.Duration
		clear  bool
	}{
		"a write ends READONLY":       {refused("READONLY You can't write"), renewed, time.Second, true},
		"one under way does not":      {refused("READONLY You can't write"), renewed, -time.Second, false},
		"an answer without a write":   {refused("NOREPLICAS Not enough"), held, time.Second, false},
		"a renewal takes no memory":   {refused("OOM command not allowed"), renewed, time.Second, false},
		"a grant does":                {refused("OOM command not allowed"), granted, time.Second, true},
		"an ACL may allow this alone": {refused("NOPERM No permissions"), granted, time.Second, false},
		"any answer ends a silence":   {errors.New("i/o timeout"), held, time.Second, true},
		"Redis 6.2's words":           {refused("ERR Error running script: @user_script:9: -MISCONF Redis is"), renewed, time.Second, true},
	} {
		tr := newFailures(time.Minute)
		tr.note(core.OpRelease, &core.Answer{Failure: core.FailRefused, Err: tt.err}, now, now)
		tr.note(core.OpAcquire, tt.answer, now.Add(tt.sent), now.Add(2*time.Second))
		if f := tr.present(0, now.Add(3*time.Second)); (f.err == nil) != tt.clear {
			t.Errorf("%s: %v is left", name, f.err)
		}
	}
}

// A refusal stays the reason while the connection also fails and probes are answered. It ends when a request of its kind succeeds, or with
// time.
func TestARefusalOutlivesTimeouts(t *testing.T) {
	now := time.Now()
	tr := newFailures(time.Minute)
	after := func(d time.Duration, kind core.OpKind, a core.Answer) {
		tr.note(kind, &a, now.Add(d), now.Add(d+time.Second/2))
	}
	after(0, core.OpAcquire, core.Answer{Failure: core.FailUncounted, Err: redisstore.Unacknowledged("0 of 1 replicas acknowledged")})
	after(time.Second, core.OpAcquire, core.Answer{Failure: core.FailUnknown, Err: errors.New("i/o timeout")})
	after(2*time.Second, core.OpObserve, core.Answer{})
	if f := tr.present(0, now.Add(3*time.Second)); !errors.Is(f.err, errUnacknowledged) {
		t.Errorf("after a probe: %v", f.err)
	}
	after(2*time.Minute, core.OpAcquire, core.Answer{Failure: core.FailUnknown, Err: errors.New("i/o timeout")})
	if f := tr.present(0, now.Add(2*time.Minute+time.Second)); isRefused(f.err) || f.err == nil {
		t.Errorf("two minutes later: %v", f.err)
	}
}

// redisError is an error reply of Redis.
type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}

var _ redis.Error = redisError("")

// A term that was not renewed in time ends with the cause.
func TestLostSaysWhyItWasNotRenewedLong(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for seconds")
	}
	for words, begin := range map[string]func(*redistest.Server){
		"NOREPLICAS": refusals["NOREPLICAS"], "NOPERM": refusals["NOPERM"], "i/o timeout": (*redistest.Server).Freeze,
	} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			server, client := bootstrapped(t)
			entries, logs := observer.New(zap.InfoLevel)
			cfg := quick("a")
			cfg.OpTimeout = time.Second // the first renewal that is not answered fails long before the term's end
			cfg.Logger = zap.New(entries)
			k := startKeeper(t, client, cfg)
			var cause error
			err := k.Do(t.Context(), "job", func(ctx context.Context, _ int64) error {
				begin(server)
				<-ctx.Done()
				cause = context.Cause(ctx)
				return nil
			})
			if words == "i/o timeout" {
				server.Thaw()
			}
			for what, err := range map[string]error{"Do": err, "context.Cause": cause} {
				refused := words != "i/o timeout"
				if !errors.Is(err, ErrLost) || errors.Is(err, errRefused) != refused || errors.Is(err, errUnknown) == refused ||
					!strings.Contains(err.Error(), "expired: renewals were ") || refused && !strings.Contains(err.Error(), words) {
					t.Errorf("%s: %v, want ErrLost and %s", what, err, words)
				}
			}
			event := func(name string) *observer.ObservedLogs { return logs.FilterField(zap.String("event", name)) }
			redistest.Eventually(t, "the loss is logged", func() bool { return event("lost").Len() == 1 })
			if said := event("lost").All()[0].ContextMap(); said["reason"] != "expired" || !strings.Contains(fmt.Sprint(said["error"]), words) {
				t.Errorf("the log: %v, want what was said to renewals", said)
			}
			if n := event("renewFailed").FilterLevelExact(zap.WarnLevel).Len(); n != 1 {
				t.Errorf("%d warnings that the lease was not renewed, want 1 of %d", n, event("renewFailed").Len())
			}
		})
	}
}

// If releases are refused, Stop says so, instead of reporting no answer.
func TestStopSaysWhatWasRefused(t *testing.T) {
	server, client := bootstrapped(t)
	cfg := quick("a")
	cfg.DrainTimeout = time.Second
	k := startKeeper(t, client, cfg)
	h, err := k.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(h.Context(), h.Drop)
	refusals["NOREPLICAS"](server)
	err = k.Stop()
	if !errors.Is(err, errRefused) || !errors.Is(err, errUnknown) || !strings.Contains(err.Error(), "NOREPLICAS") ||
		strings.Contains(err.Error(), "no answer") {
		t.Errorf("Stop: %v", err)
	}
}

// An instance does not call Redis silent before Redis had time to answer. A silence begins with the first unanswered request.
func TestSilenceBeginsWithWhatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		g := newRig(t, newFakeRedis(), "a", true, nil)
		if h := g.diagnosis.health(); h.State != HealthNotStarted {
			t.Errorf("right after Start: %v", h)
		}
		pass(time.Second)
		if _, err := g.keeperOf().TryAcquire(t.Context(), "job"); err != nil || !g.diagnosis.health().OK() {
			t.Fatalf("%v, %v", err, g.diagnosis.health())
		}
		g.fake.set(mute)
		pass(g.cfg.RenewInterval + g.cfg.OpTimeout)
		if h := g.diagnosis.health(); h.State != HealthSilent || h.Since.Sub(start).Round(time.Second) != g.cfg.RenewInterval {
			t.Errorf("silent since %v after Start, want %v: %v", h.Since.Sub(start), g.cfg.RenewInterval, h)
		}
	})
}

// A lasting refusal is an event each time, and an info entry once per renewal interval, until its cause or the owner changes.
func TestRepeatedRefusalsAreQuiet(t *testing.T) {
	zc, log := observer.New(zap.InfoLevel)
	s := startShell(&fakeStore{r: newFakeRedis()}, ManagerConfig{Config: Config{InstanceID: "one", Logger: zap.New(zc)}}.withDefaults(), false)
	defer s.cancel()
	began := s.now().Mono
	for i, tt := range []struct {
		at    int
		tell  core.Tell
		quiet bool
	}{
		{0, core.Tell{Kind: core.TellRefused, ID: "x", Cause: core.CauseFailed, Text: "0 of 1 acknowledged"}, false},
		{1, core.Tell{Kind: core.TellRefused, ID: "x", Cause: core.CauseFailed, Text: "0 of 1, again"}, true},
		{2, core.Tell{Kind: core.TellRefused, ID: "y", Cause: core.CauseFailed}, false},
		{4, core.Tell{Kind: core.TellRefused, ID: "x", Cause: core.CauseHeld, Owner: "b"}, false},
		{5, core.Tell{Kind: core.TellRefused, ID: "x", Cause: core.CauseHeld, Owner: "c"}, false},
		{6, core.Tell{Kind: core.TellAcquired, ID: "x", Until: began + core.Time(time.Minute)}, false},
		{7, core.Tell{Kind: core.TellUncertain, ID: "x", Cause: core.CauseFailed}, false},
		{8, core.Tell{Kind: core.TellUncertain, ID: "x", Cause: core.CauseFailed, Again: true}, true},
		{9, core.Tell{Kind: core.TellLost, ID: "x", Cause: core.CauseTaken}, false},
		{9, core.Tell{Kind: core.TellRefused, ID: "x", Cause: core.CauseHeld, Owner: "c"}, false},
		{10, core.Tell{Kind: core.TellRefused, ID: "y", Cause: core.CauseFailed}, false}, // a renewal interval is over
		{19, core.Tell{Kind: core.TellRefused, ID: "y", Cause: core.CauseFailed}, true},
	} {
		var told []Event
		s.cfg.Notify = func(e Event) { told = append(told, e) }
		tt.tell.At = began + core.Time(tt.at)*core.Time(time.Second)
		s.announcer.listened = ofAll
		s.announcer.announce(&tt.tell, nil)
		s.announcer.publish()
		logTaken(s)
		if n := len(log.TakeAll()); n == 1 == tt.quiet || len(told) != 1 || told[0].Repeated != tt.quiet {
			t.Errorf("%d: %d entries, events %+v, want quiet: %v", i, n, told, tt.quiet)
		}
	}
}

// An instance that has left the registry for a while works. Health says until when it is granted nothing.
func TestHealthOfAWithdrawnInstance(t *testing.T) {
	s := startShell(&fakeStore{r: newFakeRedis()}, ManagerConfig{Config: Config{InstanceID: "one", Logger: zap.NewNop()}}.withDefaults(), false)
	defer func() { logTaken(s); s.cancel() }()
	s.diagnosis.met = true
	fit := s.diagnosis.health()
	s.loop.carry([]core.Tell{{Kind: core.TellWithdrawn, At: s.now().Mono, Wait: int64(time.Hour)}})
	if h := s.diagnosis.health(); fit.Withdrawn || !h.Withdrawn || !h.OK() || !strings.Contains(h.Reason, stamp(s.time(s.diagnosis.withdrawn))) {
		t.Errorf("%+v, before that %+v", h, fit)
	}
}
