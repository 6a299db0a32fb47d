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

// A Redis that can be read and refuses starts leaves the API unready, with the code, until a start is accepted.
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

// A command that an ACL denies within a script is told as what it is, without the words of Redis.
func TestDeniedCommandIsNamed(t *testing.T) {
	f := setup(t, Config{Logger: zap.NewNop()})
	f.server.Do("ACL", "SETUSER", "default", "-xadd")
	resp, body := f.do(call{body: startBody("1:0:1", "hd")})
	if detail, _ := body["detail"].(string); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(detail, "NOPERM: its ACL denies") {
		t.Errorf("%d %q", resp.StatusCode, detail)
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
