package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// The client, the readiness probe and the log distinguish a Redis that refuses from one that does not answer.
func TestRefusalIsTold(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	f := setup(t, Config{Logger: zap.New(core)})
	if err := f.client.Set(t.Context(), "intent:bus", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []call{{body: startBody("1:0:1", "hd")}, {method: http.MethodGet, path: "/readyz", auth: "none"}} {
		resp, body := f.do(c)
		detail, _ := body["detail"].(string)
		if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(detail, "WRONGTYPE") {
			t.Errorf("%s: %d %q, want 503 and what Redis said", c.path, resp.StatusCode, detail)
		}
	}
	lines := logs.FilterMessage("request answered with 503").All()
	if len(lines) == 0 || !strings.Contains(lines[0].ContextMap()["error"].(string), "WRONGTYPE") {
		t.Errorf("the log says %v, want the cause", lines)
	}
	f.server.Kill()
	_, body := f.do(call{body: startBody("1:0:1", "hd")})
	if detail, _ := body["detail"].(string); !strings.Contains(detail, "does not answer") {
		t.Errorf("without Redis: %q", detail)
	}
}

// The log does not have an entry for each failure, but counts all of them.
func TestFaultsAreCounted(t *testing.T) {
	f := logLimit{every: time.Second}
	at := time.Unix(1_000_000, 0)
	for i, step := range []struct {
		after time.Duration
		since int
		due   bool
	}{{0, 0, true}, {0, 0, false}, {f.every - 1, 0, false}, {1, 2, true}, {f.every, 0, true}} {
		at = at.Add(step.after)
		if since, due := f.due(at); since != step.since || due != step.due {
			t.Errorf("step %d: %d, %v, want %d, %v", i, since, due, step.since, step.due)
		}
	}
}

// A session ID in capital letters is invalid.
func TestSessionInCapitals(t *testing.T) {
	f := setup(t, Config{})
	id := f.start(startBody("1:0:1", "hd"))
	capitals := strings.ToUpper(id)
	for path, want := range map[string]int{
		"/sessions?cursor=" + id: http.StatusOK, "/sessions?cursor=" + capitals: http.StatusBadRequest,
		"/sessions/" + id: http.StatusOK, "/sessions/" + capitals: http.StatusNotFound,
	} {
		if resp, body := f.do(call{method: http.MethodGet, path: path, auth: "Bearer " + reader}); resp.StatusCode != want {
			t.Errorf("%s: %s %v, want %d", path, resp.Status, body, want)
		}
	}
	for said, want := range map[string]int{capitals: http.StatusBadRequest, id: http.StatusAccepted} {
		if resp, body := f.do(call{body: `{"type":"stop","sessionId":"` + said + `"}`}); resp.StatusCode != want {
			t.Errorf("stop %s: %s %v, want %d", said, resp.Status, body, want)
		}
	}
}
