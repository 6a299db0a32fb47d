package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// If Redis can be read but refuses starts, the API is unready, with the error code, until it accepts a start.
func TestReadinessKnowsOfRefusedStarts(t *testing.T) {
	f := setup(t, Config{Logger: zap.NewNop()})
	ready := call{method: http.MethodGet, path: "/readyz", auth: "none"}
	if resp, _ := f.do(ready); resp.StatusCode != http.StatusOK {
		t.Fatalf("at first: %d", resp.StatusCode)
	}
	f.server.Do("CONFIG", "SET", "maxmemory", "1")
	if resp, _ := f.do(call{body: startBody("1:0:1", "hd")}); resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("a start: %d", resp.StatusCode)
	}
	resp, body := f.do(ready)
	if detail, _ := body["detail"].(string); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(detail, "OOM") {
		t.Errorf("refused: %d %q", resp.StatusCode, detail)
	}
	f.server.Do("CONFIG", "SET", "maxmemory", "0")
	f.start(startBody("1:0:1", "hd"))
	if resp, _ := f.do(ready); resp.StatusCode != http.StatusOK {
		t.Errorf("accepted again: %d", resp.StatusCode)
	}
}

// Requests that write nothing do not end a refusal of starts: an equal start, or a stop of an ended or unknown session. Neither does an
// accepted stop.
func TestOnlyAWriteEndsARefusal(t *testing.T) {
	f := setup(t, Config{Logger: zap.NewNop()})
	known, over := f.start(startBody("1:0:1", "hd")), f.start(startBody("1:0:2", "hd"))
	if err := f.client.HSet(t.Context(), "intent:session:"+over, "state", "ENDED").Err(); err != nil {
		t.Fatal(err)
	}
	ready := call{method: http.MethodGet, path: "/readyz", auth: "none"}
	f.server.Do("ACL", "SETUSER", "default", "-xadd")
	if resp, _ := f.do(call{body: startBody("1:0:3", "hd")}); resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("a new start: %d", resp.StatusCode)
	}
	stop := func(id string) string { return `{"type":"stop","sessionId":"` + id + `"}` }
	for _, step := range []struct {
		body string
		want int
	}{{startBody("1:0:1", "hd"), http.StatusAccepted}, {stop(over), http.StatusAccepted},
		{stop("0190a8c2-8f5e-7c2a-9d7e-3b1f6a2c4d5e"), http.StatusNotFound}, {stop(known), http.StatusAccepted}} {
		if resp, body := f.do(call{body: step.body}); resp.StatusCode != step.want {
			t.Fatalf("%s: %d %v", step.body, resp.StatusCode, body)
		}
		resp, body := f.do(ready)
		if detail, _ := body["detail"].(string); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(detail, "NOPERM") {
			t.Errorf("ready after %s: %d %q, want 503 and NOPERM", step.body, resp.StatusCode, detail)
		}
	}
	f.server.Do("ACL", "SETUSER", "default", "+xadd")
	f.start(startBody("1:0:3", "hd"))
	if resp, body := f.do(ready); resp.StatusCode != http.StatusOK {
		t.Errorf("accepted again: %d %v", resp.StatusCode, body)
	}
}

func TestHandlerHealth(t *testing.T) {
	f := setup(t, Config{Logger: zap.NewNop()})
	h, err := NewHandler(f.store, Config{Tokens: []Token{NewToken("w", writer, intent.ScopeWrite)}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	if got := h.Health(); !got.OK() || got.Error() != nil || strings.Contains(got.String(), "accepted") {
		t.Errorf("at first: %v", got)
	}
	h.reads.Note(nil)
	if got := h.Health(); !got.OK() || !strings.Contains(got.String(), "can be read") {
		t.Errorf("read: %v", got)
	}
	h.writes.Note(nil)
	if got := h.Health(); !got.OK() || !strings.Contains(got.String(), "starts are accepted") {
		t.Errorf("written: %v", got)
	}
	h.writes.Note(errors.New("i/o timeout"))
	if got := h.Health(); got.State != lease.HealthSilent || got.OK() || !strings.Contains(got.String(), "i/o timeout") {
		t.Errorf("no answer: %v", got)
	}
}

// If an ACL denies a command, in a probe or within a script, the answer says so without Redis' own text.
func TestDenialIsNamed(t *testing.T) {
	f := setup(t, Config{Logger: zap.NewNop()})
	for command, c := range map[string]call{
		"-xlen": {method: http.MethodGet, path: "/readyz", auth: "none"}, "-xadd": {body: startBody("1:0:1", "hd")},
	} {
		f.server.Do("ACL", "SETUSER", "default", command)
		resp, body := f.do(c)
		if detail, _ := body["detail"].(string); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(detail, "NOPERM: its ACL denies") {
			t.Errorf("%s: %d %q", command, resp.StatusCode, detail)
		}
	}
}
