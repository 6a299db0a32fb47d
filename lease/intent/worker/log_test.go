package worker

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/lease/intent"
)

func (r *rig) logged(cfg Config) *observer.ObservedLogs {
	r.Helper()
	core, logs := observer.New(zap.InfoLevel)
	cfg.Logger = zap.New(core)
	r.run(cfg)
	return logs
}

// If a worker was frozen while its session was declared lost, its log still names the session.
func TestLostSessionIsLogged(t *testing.T) {
	r := newRig(t)
	logs := r.logged(r.config("w1", "1"))
	a := r.start("a", "hd")
	fence := r.wait(a, intent.StateRunning, "").Fence
	other, err := intentbus.Open(r.store, "other")
	r.must(err)
	defer other.Close()
	_, err = other.Write(t.Context(), intentbus.Write{Session: a, Resource: "a", State: intent.StateEnded, Reason: intent.ReasonLeaseLost,
		Fence: fence + 1})
	r.must(err)
	r.must(r.client.Del(t.Context(), "intent:lease:resource:a", "intent:lease:slot:1").Err())
	<-r.work(a).quit
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(20 * time.Second)
	for logs.FilterMessageSnippet("session ended").FilterField(zap.String("session", a)).Len() == 0 {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("the log says %+v", logs.All())
		}
	}
}

// The log has a few entries about a failing Redis, not one per request, and one about its return.
func TestOutageIsLoggedSeldom(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	logs := r.logged(r.config("w1", "1"))
	a := r.start("a", "hd")
	r.wait(a, intent.StateRunning, "")
	r.server.Kill()
	<-r.work(a).quit // seconds and a hundred requests later
	if n := logs.FilterMessage("registry not reached").Len(); n < 1 || n > 3 {
		t.Errorf("the log says %d times that the registry is not reached, want 1 to 3", n)
	}
	r.server.Restart(true)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(20 * time.Second)
	for logs.FilterMessage("registry reached again").Len() == 0 {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("the log says %+v", logs.All())
		}
	}
}

// A worker works without the sets that another program has replaced by other types: sessions run, stop and end. The log names the keys
// once.
func TestForeignSetsAreNamedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, key := range []string{"intent:stops", "intent:ended"} {
		r.must(r.client.Set(t.Context(), key, "foreign", 0).Err())
	}
	logs := r.logged(r.config("w1", "1"))
	for range 3 {
		a := r.start("a", "hd")
		r.wait(a, intent.StateRunning, "")
		r.stop(a)
		r.wait(a, intent.StateEnded, intent.ReasonStopped)
	}
	r.eventually("the keys are named", func() bool { return logs.FilterMessageSnippet("keys hold the wrong type").Len() > 0 })
	lines := logs.FilterMessageSnippet("keys hold the wrong type").All()
	if len(lines) != 1 || len(lines[0].ContextMap()["keys"].([]any)) != 2 {
		t.Errorf("the log says %+v, want both keys in one line", lines)
	}
}
