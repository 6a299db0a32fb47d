package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// Each accepted start and stop has one log entry, with the name of its token and never the token itself. Other requests have none, because
// a client could fill the disk.
func TestRequestsAreAudited(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	f := setup(t, Config{Logger: zap.New(core)})
	took := func(outcome, session string) {
		t.Helper()
		got := logs.TakeAll()
		if len(got) != 1 {
			t.Fatalf("%s: %d entries, want one", outcome, len(got))
		}
		m := got[0].ContextMap()
		if got[0].Message != "request" || m["token"] != "w" || m["outcome"] != outcome || m["session"] != session {
			t.Errorf("%s: %q %v", outcome, got[0].Message, m)
		}
		text, err := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()).EncodeEntry(got[0].Entry, got[0].Context)
		if err != nil || strings.Contains(text.String(), "-secret") {
			t.Errorf("%s: %s %v", outcome, text, err)
		}
	}
	id := f.start(startBody("a", "p"))
	took("accepted", id)
	f.do(call{body: fmt.Sprintf(`{"type":"stop","sessionId":%q}`, id)})
	took("stopped", id)
	for _, c := range []call{
		{body: startBody("a", "p")}, {body: "{}"}, {body: startBody("a", "p"), auth: "Bearer " + reader},
		{body: startBody("a", "p"), auth: "Bearer guess-secret"},
		{method: http.MethodGet, path: "/sessions/" + id, auth: "Bearer " + reader},
	} {
		f.do(c)
	}
	if got := logs.TakeAll(); len(got) != 0 {
		t.Errorf("what accepted nothing new: %v", got)
	}
}

// left is a Store whose client hangs up at the first call.
type left struct {
	recorder
	hangUp func()
}

func (s *left) Put(ctx context.Context, id string, r intent.Request, ttl time.Duration) (string, bool, error) {
	s.hangUp()
	id, replayed, _ := s.recorder.Put(ctx, id, r, ttl) // Redis has executed it
	return id, replayed, ctx.Err()
}

// An accepted start has its log entry even if its client hangs up before the answer.
func TestWhoHangsUpIsAudited(t *testing.T) {
	const id = "0190a8c2-8f5e-7c2a-9d7e-3b1f6a2c4d5e"
	core, logs := observer.New(zap.InfoLevel)
	ctx, hangUp := context.WithCancel(t.Context())
	h, err := NewHandler(&left{hangUp: hangUp}, Config{Logger: zap.New(core), Tokens: []Token{NewToken("w", writer, intent.ScopeWrite)},
		NewID: func() (uuid.UUID, error) { return uuid.Parse(id) }})
	if err != nil {
		t.Fatal(err)
	}
	h.ServeHTTP(httptest.NewRecorder(), authorized(ctx, startBody("a", "p")))
	if !h.Flush(t.Context()) {
		t.Fatal("the log is not written")
	}
	if got := logs.TakeAll(); len(got) != 1 || got[0].ContextMap()["outcome"] != "accepted" || got[0].ContextMap()["session"] != id {
		t.Errorf("the log has %v", got)
	}
}

// authorized is a good POST.
func authorized(ctx context.Context, body string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/intents", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+writer)
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = "127.0.0.1:5000"
	return r
}

// broken is an Observer that panics.
type broken struct{}

func (broken) Intent(string, bool) { panic("intent") }
func (broken) Replay()             { panic("replay") }
func (broken) WorkerStart(string)  {}

// An observer that panics fails no request.
func TestObserverThatPanics(t *testing.T) {
	h, err := NewHandler(&recorder{}, Config{Logger: zap.NewNop(), Observer: broken{}, Tokens: []Token{NewToken("w", writer, intent.ScopeWrite)}})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, authorized(t.Context(), startBody("a", "p"))); w.Code != http.StatusAccepted {
		t.Errorf("%d, want 202", w.Code)
	}
	h.Flush(t.Context())
}
