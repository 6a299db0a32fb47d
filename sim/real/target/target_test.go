package target

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openTarget(t testing.TB, serve time.Duration) (*Target, *history.Recorder) {
	t.Helper()
	rec := history.NewRecorder()
	target, err := New(redisfixture.Loopback, host.NewClock(), rec, serve, func(*history.Event) {}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	t.Cleanup(target.Close)
	target.Add("s")
	return target, rec
}

// pollAs polls and returns the status, 0 if there was no answer.
func pollAs(ctx context.Context, url, session, instance string, fence int64) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/poll/"+session, nil)
	if err != nil {
		return 0
	}
	req.Header.Set("X-Instance", instance)
	if fence != 0 {
		req.Header.Set("X-Fence", strconv.FormatInt(fence, 10))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// A node can read which sessions exist and are not paused.
func TestTargetListsSessions(t *testing.T) {
	target, _ := openTarget(t, 0)
	target.Add("t")
	for _, c := range []struct {
		listed bool
		want   []string
	}{{true, []string{"s", "t"}}, {false, []string{"t"}}, {true, []string{"s", "t"}}} {
		target.List("s", c.listed)
		resp, err := http.Get(target.URL + "/sessions")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		err = json.NewDecoder(resp.Body).Decode(&got)
		_ = resp.Body.Close()
		if slices.Sort(got); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v, %v; want %v", got, err, c.want)
		}
	}
}

func TestTargetKeepsTheHighestFence(t *testing.T) {
	target, rec := openTarget(t, 0)
	for i, c := range []struct {
		session, instance string
		fence             int64
		want              int
	}{
		{"s", "a", 5, 204},
		{"s", "a", 5, 204},
		{"s", "b", 0, 204}, // without a fence, there is nothing to compare
		{"s", "b", 7, 204},
		{"s", "a", 5, 409},
		{"s", "b", 7, 204},
		{"s", "c", -1, 400},
		{"s", "", 8, 400},
		{"unknown", "a", 9, 404},
	} {
		if got := pollAs(t.Context(), target.URL, c.session, c.instance, c.fence); got != c.want {
			t.Errorf("poll %d by %q with fence %d: status %d, want %d", i+1, c.instance, c.fence, got, c.want)
		}
	}
	var kinds []string
	last := int64(-1)
	for e := range rec.Events() {
		kinds = append(kinds, e.Kind.String())
		if e.T < last {
			t.Errorf("%v at %d, after one at %d", e.Kind, e.T, last)
		}
		last = e.T
	}
	wanted := []string{"arrived", "served", "arrived", "served", "arrived", "served", "arrived", "served", "rejected", "arrived",
		"served"}
	if !slices.Equal(kinds, wanted) {
		t.Errorf("recorded %v, want %v", kinds, wanted)
	}
}

func TestTargetSeesTwoPollersAtOnce(t *testing.T) {
	target, rec := openTarget(t, 0)
	release := target.Hang("s")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { pollAs(ctx, target.URL, "s", "a", 1) })
	await(t, rec, history.Arrived, 1)
	status := make(chan int, 1)
	wg.Go(func() { status <- pollAs(t.Context(), target.URL, "s", "b", 2) })
	await(t, rec, history.Arrived, 2)
	if n := target.Violations.Load(); n != 1 {
		t.Errorf("%d violations, want 1", n)
	}
	cancel()
	await(t, rec, history.Aborted, 1)
	release()
	if got := <-status; got != 204 {
		t.Errorf("the hanging poll was answered with %d, want 204", got)
	}
	wg.Wait()
}

func TestTargetSlowsOneSession(t *testing.T) {
	target, _ := openTarget(t, 0)
	target.Add("other")
	target.Slow("s", 50*time.Millisecond)
	start := time.Now()
	pollAs(t.Context(), target.URL, "s", "a", 0)
	if took := time.Since(start); took < 50*time.Millisecond {
		t.Errorf("a slow poll took %v", took)
	}
	target.Slow("s", 0)
	target.Slow("unknown", time.Hour)
	target.Hang("unknown")()
	if got := pollAs(t.Context(), target.URL, "other", "a", 0); got != 204 {
		t.Errorf("status %d of a session that is not slow", got)
	}
}

// The target must not limit a storm.
func BenchmarkTarget(b *testing.B) {
	target, _ := openTarget(b, 0)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req, _ := http.NewRequest(http.MethodPost, target.URL+"/poll/s", nil)
			req.Header.Set("X-Instance", "a")
			resp, err := client.Do(req)
			if err != nil {
				b.Error(err)
				return
			}
			_ = resp.Body.Close()
		}
	})
}

// reply is a response whose body the test closes at its end.
type reply struct {
	StatusCode int
	Body       io.Reader
}

func tuneAs(ctx context.Context, t *testing.T, method, url, slot, service, inst string, fence, serviceFence int64) *reply {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url+"/tune/"+slot, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{
		"X-Instance": inst, "X-Service": service, "X-Session": "s-" + inst, "X-Fence": strconv.FormatInt(fence, 10),
		"X-Service-Fence": strconv.FormatInt(serviceFence, 10),
	} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return &reply{resp.StatusCode, resp.Body}
}

func count(rec *history.Recorder, kind history.Kind) (n int64) {
	for e := range rec.Events() {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// await waits until n events of this kind are recorded.
func await(t *testing.T, rec *history.Recorder, kind history.Kind, n int64) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	for count(rec, kind) < n {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("%d of %d %v events after 30 s", count(rec, kind), n, kind)
		}
	}
}

func TestTunersKeepTheHighestFences(t *testing.T) {
	target, _ := openTarget(t, 0)
	for i, c := range []struct {
		slot, service, instance string
		fence, serviceFence     int64
		want                    int
	}{
		{"1", "a", "x", 5, 5, 200},
		{"2", "a", "y", 5, 4, 409}, // the service has seen a newer one
		{"1", "b", "y", 4, 5, 409}, // the slot has
		{"1", "b", "y", 6, 5, 200},
		{"1", "a", "x", 5, 6, 409},
		{"2", "a", "x", 1, 5, 200},
		{"2", "a", "", 1, 5, 400},
		{"2", "", "x", 1, 5, 400},
		{"2", "a", "x", -1, 5, 400},
	} {
		resp := tuneAs(t.Context(), t, http.MethodPost, target.URL, c.slot, c.service, c.instance, c.fence, c.serviceFence)
		if resp == nil || resp.StatusCode != c.want {
			t.Errorf("%d: %+v gave %v, want %d", i, c, resp, c.want)
		}
	}
}

// A pipeline is served until it lets go, breaks off, or a newer fence displaces it. Each end is recorded for slot and service.
func TestTunersServeUntil(t *testing.T) {
	t.Run("it lets go", func(t *testing.T) {
		target, rec := openTarget(t, 0)
		tuneAs(t.Context(), t, http.MethodPost, target.URL, "1", "a", "x", 5, 5)
		if resp := tuneAs(t.Context(), t, http.MethodDelete, target.URL, "1", "a", "x", 5, 5); resp == nil || resp.StatusCode != http.StatusNoContent {
			t.Fatalf("DELETE gave %v", resp)
		}
		if n := count(rec, history.Served); n != 2 { // at once: the answer permits the worker to release
			t.Errorf("%d events of its end, want 2", n)
		}
	})
	t.Run("it breaks off", func(t *testing.T) {
		target, rec := openTarget(t, 0)
		ctx, cancel := context.WithCancel(t.Context())
		tuneAs(ctx, t, http.MethodPost, target.URL, "1", "a", "x", 5, 5)
		cancel()
		await(t, rec, history.Aborted, 2)
	})
	t.Run("a newer fence", func(t *testing.T) {
		target, rec := openTarget(t, 0)
		old := tuneAs(t.Context(), t, http.MethodPost, target.URL, "1", "a", "x", 5, 5)
		tuneAs(t.Context(), t, http.MethodPost, target.URL, "2", "a", "y", 5, 6)
		if _, err := old.Body.Read(make([]byte, 1)); err == nil {
			t.Error("the old pipeline's answer goes on")
		}
		var kinds []history.Kind
		for e := range rec.Events() {
			kinds = append(kinds, e.Kind)
		}
		if len(kinds) != 6 || kinds[2] != history.Arrived || kinds[4] != history.Aborted {
			t.Errorf("recorded %v: the overlap must be seen", kinds)
		}
	})
}
