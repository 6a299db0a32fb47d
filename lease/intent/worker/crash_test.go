package worker

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// kill starts a worker in a process of its own, waits until session runs there, and kills it.
func (r *rig) kill(session string) {
	r.Helper()
	exe, err := os.Executable()
	r.must(err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), asWorker+"="+r.server.Addr())
	r.must(cmd.Start())
	r.wait(session, intent.StateRunning, "")
	r.must(cmd.Process.Kill())
	_ = cmd.Wait()
}

// ADR 5.3 A: killed and not restarted, its slot and service are busy until the TTL, then free; its session has ended.
func TestKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.start("a", "hd")
	r.kill(a)
	r.run(r.config("w2", "1"))
	if s := r.settled(r.start("a", "sd")); s.Reason != intent.ReasonLeaseBusy {
		t.Errorf("before the TTL: %+v", s)
	}
	r.wait(a, intent.StateEnded, intent.ReasonLeaseLost)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for r.client.Exists(t.Context(), "lease:service:a", "lease:tuner:1").Val() > 0 {
		<-tick.C
	}
	r.wait(r.start("a", "hd"), intent.StateRunning, "")
}

// ADR 5.3 B: killed and restarted under the same name, all is free when it is ready; also as the declared single writer.
func TestKilledAndRestarted(t *testing.T) {
	for _, single := range []bool{false, true} {
		r := newRig(t)
		a := r.start("a", "hd")
		r.kill(a)
		cfg := r.config("w1", "1")
		cfg.SingleWriter = single
		r.run(cfg)
		if n := r.client.Exists(t.Context(), "lease:service:a", "lease:tuner:1").Val(); n != 0 {
			t.Errorf("single writer %v: %d leases are left when the worker is ready", single, n)
		}
		r.wait(a, intent.StateEnded, intent.ReasonLeaseLost)
		r.wait(r.start("a", "hd"), intent.StateRunning, "")
	}
}

func TestSingleWriterRefusesCompany(t *testing.T) {
	r := newRig(t)
	long := options // whoever lives beats in time, however busy the machine is
	long.Leases.TTL, long.Leases.OpTimeout = 0, 0
	shared := r.store.Options().Leases // the group is to have the long TTL from its beginning
	shared.TTL, shared.OpTimeout, shared.Quarantine = 0, 0, 0
	r.must(r.client.FlushAll(t.Context()).Err())
	r.must(lease.Bootstrap(t.Context(), r.client, shared))
	first := r.config("w1", "1")
	first.Store = long
	r.run(first)
	a := r.start("a", "hd")
	r.wait(a, intent.StateRunning, "")
	cfg := r.config("w2", "1")
	cfg.SingleWriter, cfg.Store = true, long
	w, err := New(r.client, cfg)
	r.must(err)
	if err := w.Start(t.Context()); !errors.Is(err, ErrOtherWorker) {
		t.Error(err)
	}
	r.must(w.Stop())
	if r.client.Exists(t.Context(), "lease:service:a", "lease:tuner:1").Val() != 2 {
		t.Error("leases of a living worker were deleted")
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
		{NewPipeline: pipeline, Slots: []string{"1"}, StopTimeout: -1},
		{NewPipeline: pipeline, Slots: []string{"1"}, MaxTries: -1},
	} {
		if _, err := New(c, cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}
