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
	f.do(call{method: http.MethodGet, path: "/api/v3/sessions?limit=0", auth: "Bearer " + reader})
	took("a list that is refused", "r", "invalid", "")
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

// left is a Store whose clients hang up as soon as it is asked for something.
type left struct {
	recorder
	hangUp func()
}

func (s *left) PutSessionWithIdempotency(ctx context.Context, x intent.Session, key string, ttl time.Duration) (string, bool, error) {
	s.hangUp()
	id, replayed, _ := s.recorder.PutSessionWithIdempotency(ctx, x, key, ttl) // Redis has done it
	return id, replayed, ctx.Err()
}

func (s *left) Stop(ctx context.Context, id string) (bool, error) {
	s.hangUp()
	ended, _ := s.recorder.Stop(ctx, id)
	return ended, ctx.Err()
}

// Who hangs up before the answer has an entry of what he had done all the same.
func TestWhoHangsUpIsAudited(t *testing.T) {
	const id = "0190a8c2-8f5e-7c2a-9d7e-3b1f6a2c4d5e"
	core, logs := observer.New(zap.InfoLevel)
	st := &left{}
	h, err := NewHandler(st, Config{Logger: zap.New(core), Tokens: []Token{NewToken("w", writer, intent.ScopeWrite)},
		NewID: func() (uuid.UUID, error) { return uuid.Parse(id) }})
	if err != nil {
		t.Fatal(err)
	}
	for outcome, body := range map[string]string{"accepted": startBody("a", "p"), "stopped": `{"type":"stream.stop","sessionId":"` + id + `"}`} {
		ctx, hangUp := context.WithCancel(t.Context())
		st.hangUp = hangUp
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v3/intents", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+writer)
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = "127.0.0.1:5000"
		h.ServeHTTP(httptest.NewRecorder(), r)
		if !h.Flush(t.Context()) {
			t.Fatal("the log is not written")
		}
		got := logs.TakeAll()
		if len(got) != 1 || got[0].ContextMap()["outcome"] != outcome || got[0].ContextMap()["session"] != id {
			t.Errorf("%s: the log has %v", outcome, got)
		}
	}
}

// stalled is where a log goes that nobody reads, until read is closed.
type stalled struct{ read chan struct{} }

func (s stalled) Write(p []byte) (int, error) {
	<-s.read
	return len(p), nil
}

func (stalled) Sync() error { return nil }

// broken is an Observer that panics.
type broken struct{}

func (broken) Intent(string, string) { panic("intent") }
func (broken) Replay()               { panic("replay") }
func (broken) WorkerStart(string)    {}

// Whoever reads the log and has stalled, and whoever counts and panics, holds up no request.
func TestNobodyWhoIsToldHoldsUpARequest(t *testing.T) {
	log := stalled{make(chan struct{})}
	f := setup(t, Config{Logger: zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), log, zap.InfoLevel))})
	h := f.handler.(*Handler)
	h.cfg.Observer = broken{}
	answered := make(chan int)
	go func() {
		defer close(answered)
		for range 2 { // the second is a replay
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/api/v3/intents", strings.NewReader(startBody("a", "p")))
			r.Header.Set("Authorization", "Bearer "+writer)
			r.Header.Set("Content-Type", "application/json")
			r.RemoteAddr = "127.0.0.1:5000"
			func() {
				defer func() {
					if with := recover(); with != nil {
						w.Code = http.StatusInternalServerError
					}
				}()
				h.ServeHTTP(w, r)
			}()
			answered <- w.Code
		}
	}()
	for range 2 {
		select {
		case code := <-answered:
			if code != http.StatusAccepted {
				t.Errorf("answered with %d, want 202", code)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a request waits for who reads the log")
		}
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if h.Flush(late) {
		t.Error("all was written to a log that nobody reads")
	}
	close(log.read)
	if !h.Flush(t.Context()) {
		t.Error("what was told is not written to a log that is read on")
	}
}
