package worker

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/membership"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// kill starts a worker in a process of its own, waits until session runs there, and kills it.
func (r *rig) kill(name, session string) {
	r.Helper()
	exe, err := os.Executable()
	r.must(err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), asWorker+"="+r.server.Addr(), victimName+"="+name)
	r.must(cmd.Start())
	r.wait(session, intent.StateRunning, "")
	r.must(cmd.Process.Kill())
	_ = cmd.Wait()
}

// ADR 5.3 A: if a worker is killed and not restarted, its slot and service stay busy until the TTL, and its session ends.
func TestKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.start("a", "hd")
	r.kill("w1", a)
	r.run(r.config("w2", "1"))
	if s := r.settled(r.start("a", "sd")); s.Reason != intent.ReasonLeaseBusy {
		t.Errorf("before the TTL: %+v", s)
	}
	r.wait(a, intent.StateEnded, intent.ReasonLeaseLost)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for r.client.Exists(t.Context(), "intent:lease:resource:a", "intent:lease:slot:1").Val() > 0 {
		<-tick.C
	}
	r.wait(r.start("a", "hd"), intent.StateRunning, "")
}

// ADR 5.3 B: if a killed worker restarts under the same name, by default the host's, all leases are free when it is ready. A declared
// single writer frees them under any name.
func TestKilledAndRestarted(t *testing.T) {
	for _, tt := range []struct {
		before, after string
		single        bool
	}{{"w1", "w1", false}, {"", "", false}, {"w1", "w1", true}, {"", "", true}, {"w1", "w2", true}} {
		r := newRig(t)
		a := r.start("a", "hd")
		r.kill(tt.before, a)
		cfg := r.config(tt.after, "1")
		cfg.SingleWriter = tt.single
		began := time.Now()
		r.run(cfg)
		if n := r.client.Exists(t.Context(), "intent:lease:resource:a", "intent:lease:slot:1").Val(); n != 0 {
			t.Errorf("%+v: %d leases are left when the worker is ready", tt, n)
		}
		if took := time.Since(began); took > options.Leases.TTL/2 {
			t.Errorf("%+v: ready after %v", tt, took)
		}
		r.wait(a, intent.StateEnded, intent.ReasonLeaseLost)
		r.wait(r.start("a", "hd"), intent.StateRunning, "")
	}
}

// A restarted worker needs only the leases to find those of its predecessor. Redis may have lost the session, an older worker may have
// removed its entry, and the predecessor may have had other slots. The leases of other workers and keys of other types stay.
func TestRestartedWithNothingThatTells(t *testing.T) { // I6
	r := newRig(t)
	a := r.start("a", "hd")
	r.kill("w1", a)
	dead := r.client.Get(t.Context(), "intent:lease:resource:a").Val()
	r.must(r.client.Del(t.Context(), "intent:session:"+a, "intent:owned:"+dead).Err())
	const another = "intent:lease:resource:another"
	long := "intent:lease:resource:" + strings.Repeat("x", lease.NameLengthMax)
	for key, owner := range map[string]string{"intent:lease:slot:of before": dead, "intent:lease:slot:9": dead, long: dead, another: "another"} {
		r.must(r.client.Set(t.Context(), key, owner, time.Hour).Err())
	}
	r.run(r.config("w1", "1"))
	for _, key := range []string{"intent:lease:resource:a", "intent:lease:slot:1", "intent:lease:slot:9"} {
		if r.client.Get(t.Context(), key).Val() == dead {
			t.Errorf("%s is still its earlier process' when the worker is ready", key)
		}
	}
	if owner := r.client.Get(t.Context(), another).Val(); owner != "another" {
		t.Errorf("another's lease is now %q", owner)
	}
	r.wait(r.start("b", "hd"), intent.StateRunning, "")
}

// single starts a single writer while other workers live. It returns when the writer waits for them, with the channel of its result.
func (r *rig) single(name string, o store.Options) <-chan error {
	r.Helper()
	cfg := r.config(name, "1")
	cfg.Store = o
	zc, logs := observer.New(zap.WarnLevel)
	cfg.SingleWriter, cfg.Logger = true, zap.New(zc)
	w, err := New(r.client, cfg)
	r.must(err)
	r.Cleanup(func() { _ = w.Stop() })
	started := make(chan error, 1)
	go func() { started <- w.Start(r.Context()) }()
	r.eventually("it waits", func() bool { return logs.FilterMessageSnippet("waiting until another").Len() == 1 })
	if h := w.Health(); h.State != lease.HealthNotStarted {
		r.Errorf("while it waits: %v", h)
	}
	return started
}

// beating is another worker that has beaten once, as me; beat makes it beat again.
func (r *rig) beating(id string, me membership.Incarnation) (other intentbus.Bus, beat func()) {
	r.Helper()
	other, err := intentbus.Open(r.store, id)
	r.must(err)
	r.Cleanup(func() { _ = other.Close() })
	r.must(other.Create(r.Context()))
	beat = func() {
		r.Helper()
		_, _, _, err := other.Beat(r.Context(), me.String())
		r.must(err)
	}
	beat()
	return other, beat
}

// A single writer waits one TTL for another worker to end. If the other stays alive, its leases stay too.
func TestSingleWriterRefusesCompany(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	living := r.run(r.config("w1", "1"))
	const held = "intent:lease:resource:held" // without a TTL: a pause of this host cannot expire it
	r.must(r.client.Set(t.Context(), held, living.InstanceID(), 0).Err())
	began := time.Now()
	started := r.single("w2", options)
	if err := <-started; !errors.Is(err, ErrOtherWorker) || time.Since(began) < options.Leases.TTL {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	if r.client.Exists(t.Context(), held).Val() != 1 {
		t.Error("the lease of a living worker was deleted")
	}
}

// A single writer that replaces another, as in a deployment, begins when the other has stopped.
func TestSingleWriterFollows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.run(r.config("w1", "1"))
	r.wait(r.start("a", "hd"), intent.StateRunning, "")
	started := r.single("w1", options) // a living worker of the same name is not its predecessor
	r.must(first.Stop())
	r.must(<-started)
	r.wait(r.start("a", "hd"), intent.StateRunning, "")
}

// A worker with the single writer's name in another container counts as its predecessor after two missed heartbeats, not earlier.
func TestSingleWriterInAnotherContainer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	long := options // so that a busy machine beats in time
	long.Leases.TTL = 3 * options.Leases.TTL
	shared := r.store.Options().Leases // the group needs the long TTL from the start
	shared.TTL, shared.Quarantine = long.Leases.TTL, 0
	r.must(r.client.FlushAll(t.Context()).Err())
	r.must(admin.Bootstrap(t.Context(), r.client, shared))
	me := membership.WhoAmI("w1")
	me.PIDNS = "another"
	_, beat := r.beating("earlier", me)
	started := r.single("w1", long)
	tick := time.NewTicker(membership.BeatInterval(long.Leases.TTL) / 4)
	defer tick.Stop()
	for range 12 { // as long as three heartbeats take
		select {
		case err := <-started:
			t.Fatalf("while the other beats: %v", err)
		case <-tick.C:
			beat()
		}
	}
	silent := time.Now()
	r.must(<-started)
	if took := time.Since(silent); took > long.Leases.TTL/2 {
		t.Errorf("%v after the last heartbeat", took)
	}
}

// A worker is alive if Redis refuses its beats but renews its leases. A single writer counts only the silence that it observes itself.
func TestSingleWriterHasToHearSilence(t *testing.T) { // I1
	t.Parallel()
	r := newRig(t)
	_, beat := r.beating("other", membership.Incarnation{Name: "w0", Boot: "another"})
	r.must(r.client.ZAdd(t.Context(), "intent:workers", redis.Z{Member: "other", Score: 1}).Err())
	r.must(r.client.Set(t.Context(), "intent:lease:resource:a", "other", 0).Err())
	started := r.single("w1", options)
	tick := time.NewTicker(membership.BeatInterval(options.Leases.TTL) / 4)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case err := <-started:
			if ended = true; !errors.Is(err, ErrOtherWorker) {
				t.Errorf("%v, want ErrOtherWorker", err)
			}
		case <-tick.C:
			beat()
		}
	}
	if r.client.Exists(t.Context(), "intent:lease:resource:a").Val() != 1 {
		t.Error("the lease of a living worker was deleted")
	}
}

// A worker with a longer TTL than the single writer's beats less often. Each worker is judged by its own TTL.
func TestSingleWriterKnowsOthersLives(t *testing.T) { // I1
	t.Parallel()
	r := newRig(t)
	long := r.config("w1", "1")
	life := 4 * options.Leases.TTL
	other, _ := r.beating("other", membership.Incarnation{Name: long.Name, Boot: "another", Life: life.Milliseconds()})
	r.must(r.client.Set(t.Context(), "intent:lease:resource:a", "other", 0).Err())
	started := r.single(long.Name, options)
	select {
	case err := <-started:
		t.Fatalf("before two of the other's heartbeats: %v", err)
	case <-time.After(membership.BeatInterval(life)):
	}
	r.must(other.Leave(t.Context(), "other")) // nobody waits for a worker that has signed off
	r.must(<-started)
}

// pausedOnce pauses once, after reading the registry of workers, until goOn is closed.
type pausedOnce struct {
	once     *sync.Once
	at, goOn chan struct{}
}

func (p pausedOnce) DialHook(next redis.DialHook) redis.DialHook { return next }
func (p pausedOnce) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if script, ok := cmd.(*redis.Cmd); ok {
			if list, _ := script.Val().([]any); len(list) > 1 {
				if of, _ := list[1].([]any); len(of) == 3 { // a worker with its beat and its description: workers.lua
					p.once.Do(func() { close(p.at); <-p.goOn })
				}
			}
		}
		return err
	}
}

func (p pausedOnce) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A single writer found no other worker and then paused. It deletes nothing of a worker that came meanwhile.
func TestSingleWriterThatStoodStill(t *testing.T) { // I1
	t.Parallel()
	r := newRig(t)
	pause := pausedOnce{once: &sync.Once{}, at: make(chan struct{}), goOn: make(chan struct{})}
	cfg := r.config("w1", "1")
	cfg.SingleWriter, cfg.Store.Leases.Hooks = true, []redis.Hook{pause}
	first, err := New(r.client, cfg)
	r.must(err)
	t.Cleanup(func() { _ = first.Stop() })
	started := make(chan error, 1)
	go func() { started <- first.Start(t.Context()) }()
	<-pause.at
	// As after a life without a beat, or in another container.
	r.must(r.client.ZAdd(t.Context(), "intent:workers", redis.Z{Member: first.InstanceID(), Score: 0}).Err())
	cfg.Store.Leases.Hooks = nil
	second := r.run(cfg)
	r.wait(r.start("a", "hd"), intent.StateRunning, "")
	close(pause.goOn)
	if err := <-started; !errors.Is(err, ErrOtherWorker) {
		t.Errorf("%v, want ErrOtherWorker", err)
	}
	for _, key := range []string{"intent:lease:resource:a", "intent:lease:slot:1"} {
		if owner := r.client.Get(t.Context(), key).Val(); owner != second.InstanceID() {
			t.Errorf("%s is of %q, want the living worker %q", key, owner, second.InstanceID())
		}
	}
}

// The log names two living workers of one name.
func TestSharedNameIsLogged(t *testing.T) {
	r := newRig(t)
	r.run(r.config("", "1"))
	if logs := r.logged(r.config("", "1")); logs.FilterMessageSnippet("another living worker has this name").Len() != 1 {
		t.Errorf("the log says %+v", logs.All())
	}
}

func TestConfigIsChecked(t *testing.T) {
	c := redis.NewClient(&redis.Options{})
	defer c.Close()
	pipeline := func(Job) Pipeline { return nil }
	for _, cfg := range []Config{
		{Slots: []string{"1"}}, {NewPipeline: pipeline}, {NewPipeline: pipeline, Slots: []string{"1", "1"}},
		{NewPipeline: pipeline, Slots: []string{""}}, {NewPipeline: pipeline, Slots: []string{"a b"}},
		{NewPipeline: pipeline, Slots: []string{"1"}, Grace: time.Minute},
		{NewPipeline: pipeline, Slots: []string{"1"}, Grace: 15 * time.Second, Store: renewing(14 * time.Second)},
		{NewPipeline: pipeline, Slots: []string{"1"}, Store: renewing(22 * time.Second)},
		{NewPipeline: pipeline, Slots: []string{"1"}, StopTimeout: -1},
		{NewPipeline: pipeline, Slots: []string{"1"}, MaxTries: -1},
	} {
		if _, err := New(c, cfg); !errors.Is(err, lease.ErrInvalidConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	for _, grace := range []time.Duration{0, 15 * time.Second} { // the longest that fits with the default renewal interval
		w, err := New(c, Config{NewPipeline: pipeline, Slots: []string{"1"}, Grace: grace})
		if err != nil {
			t.Fatal(err)
		}
		w.Stop()
	}
}

func renewing(every time.Duration) store.Options {
	return store.Options{Leases: lease.Config{RenewInterval: every}}
}

// If a late write records a session at a worker that does not run it, the session ends.
func TestRecordOfWhatIsNotInHand(t *testing.T) { // I3
	r := newRig(t)
	w := r.run(r.config("w1", "1"))
	a := r.start("a", "hd")
	r.wait(a, intent.StateRunning, "")
	r.stop(a)
	r.wait(a, intent.StateEnded, intent.ReasonStopped)
	r.must(r.client.HSet(t.Context(), "intent:session:"+a, "state", "RUNNING", "owner", w.InstanceID()).Err())
	r.must(r.client.ZAdd(t.Context(), "intent:owned:"+w.InstanceID(), redis.Z{Member: a}).Err())
	r.wait(a, intent.StateEnded, intent.ReasonLeaseLost)
}
