package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// What changes something or is refused is in the log with the token's name, and no token ever is.
func TestRequestsAreAudited(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	f := setup(t, Config{Logger: zap.New(core)})
	var id string
	took := func(what, token, outcome, session string) {
		t.Helper()
		got := logs.TakeAll()
		if len(got) != 1 {
			t.Errorf("%s: %d entries, want one", what, len(got))
			return
		}
		m := got[0].ContextMap()
		if got[0].Message != "request" || m["token"] != token || m["outcome"] != outcome || m["session"] != session {
			t.Errorf("%s: %q %v", what, got[0].Message, m)
		}
		text, err := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()).EncodeEntry(got[0].Entry, got[0].Context)
		if err != nil || strings.Contains(text.String(), "-secret") {
			t.Errorf("%s: %s %v", what, text, err)
		}
	}
	id = f.start(startBody("a", "p"))
	took("a start", "w", "accepted", id)
	f.do(call{body: startBody("a", "p")})
	took("the same", "w", "replayed", id)
	f.do(call{body: fmt.Sprintf(`{"type":"stream.stop","sessionId":%q}`, id)})
	took("a stop", "w", "stopped", id)
	f.do(call{body: "{}"})
	took("malformed", "w", "invalid", "")
	f.do(call{body: startBody("a", "p"), auth: "Bearer " + reader})
	took("wrong scope", "r", "insufficient-scope", "")
	f.do(call{method: http.MethodGet, path: "/api/v3/sessions", auth: "Bearer " + writer})
	took("wrong scope to read", "w", "insufficient-scope", "")
	f.do(call{body: startBody("a", "p"), auth: "Bearer " + stale})
	took("expired", "", "unauthorized", "")
	for range 100 { // in the same second
		f.do(call{body: startBody("a", "p"), auth: "Bearer guess-secret"})
	}
	if n := logs.Len(); n > 20 {
		t.Errorf("100 guesses are %d entries", n)
	}
	logs.TakeAll()
	f.do(call{method: http.MethodGet, path: "/api/v3/sessions/" + id, auth: "Bearer " + reader})
	if got := logs.TakeAll(); len(got) != 0 {
		t.Errorf("a reading: %v", got)
	}
}

// A token cannot fill the disk with entries: beyond as many as it may start, those of what started nothing are counted, and each
// start that is accepted has its own.
func TestEntriesOfATokenAreLimited(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	f := setup(t, Config{Logger: zap.New(core), Quotas: Quotas{StartRate: 10}})
	refused := call{body: startBody("a", "p"), auth: "Bearer " + reader}
	stop := call{body: `{"type":"stream.stop","sessionId":"0190a8c2-8f5e-7c2a-9d7e-3b1f6a2c4d5e"}`}
	told := 0 // of the reader's that have no entry of their own: how many the next entry tells of depends on the machine
	for _, c := range []call{refused, {body: "{}"}, stop} {
		logs.TakeAll()
		for range 500 {
			f.do(c)
		}
		if n := logs.Len(); n > 300 {
			t.Errorf("500 of %q are %d entries", c.body, n)
		}
		for _, e := range logs.FilterField(zap.String("token", "r")).All() {
			if since, ok := e.ContextMap()["sinceLast"].(int64); ok {
				told += int(since)
			}
		}
	}
	logs.TakeAll()
	id := f.start(startBody("b", "p"))
	if got := logs.FilterField(zap.String("session", id)).Len(); got != 1 {
		t.Errorf("a start that was accepted: %d entries", got)
	}
	h, now := f.handler.(*Handler), time.Now().Add(time.Minute)
	token := h.find(reader)
	if since, due := h.quotas.entry(token, now); !due || told+since < 200 {
		t.Errorf("a minute later: %v, %d not told of; want the number of the others", due, since)
	}
	if since, due := h.quotas.entry(token, now); !due || since != 0 {
		t.Errorf("and then: %v, %d", due, since)
	}
}
