package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// recorder is a Store that only records requested changes.
type recorder struct{ changes []string }

func (s *recorder) Put(_ context.Context, id string, r intent.Request, _ time.Duration) (string, bool, error) {
	s.changes = append(s.changes, r.Key(intent.Names{}))
	return id, false, nil
}

func (s *recorder) PutLeased(ctx context.Context, id string, r intent.Request, ttl time.Duration) (string, bool, error) {
	return s.Put(ctx, id, r, ttl)
}

func (s *recorder) Stop(_ context.Context, id string) (bool, error) {
	s.changes = append(s.changes, id)
	return false, nil
}

func (s *recorder) Get(context.Context, string) (intent.Session, error) {
	return intent.Session{}, store.ErrNotFound
}

func (s *recorder) List(context.Context, string, int) ([]intent.Session, string, error) {
	return nil, "", nil
}

func (s *recorder) Ping(context.Context) error { return nil }

// FuzzRequest sends any request through the whole handler. The answer is JSON with a documented status. A refused request changes nothing.
// An accepted one changes exactly one thing, and its token has the write scope.
func FuzzRequest(fz *testing.F) {
	const uuid = "0190a8c2-8f5e-7c2a-9d7e-3b1f6a2c4d5e"
	fz.Add("POST", "/intents", "Bearer "+writer, "application/json", "", "", []byte(startBody("a", "p")))
	fz.Add("POST", "/intents", "Bearer "+writer, "application/json; charset=utf-8", "identity", "10.0.0.1, 203.0.113.9",
		[]byte(`{"type":"stop","sessionId":"`+uuid+`"}`))
	fz.Add("GET", "/sessions?limit=5&cursor="+uuid, "bearer "+reader, "", "", "", []byte{})
	fz.Add("HEAD", "/sessions/"+uuid, "Bearer "+reader, "", "", "::1", []byte{})
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/sessions/", "//"} {
		fz.Add("GET", path, "Bearer "+stale, "text/plain", "gzip", "unknown", []byte("x"))
	}
	statuses := []int{200, 202, 400, 401, 403, 404, 405, 413, 415}
	st := &recorder{}
	h, err := NewHandler(st, Config{
		Quotas:         noQuotas,
		Tokens:         []Token{NewToken("w", writer, intent.ScopeWrite), NewToken("r", reader, intent.ScopeRead)},
		TrustedProxies: lan(), BodyMax: 1000,
	})
	if err != nil {
		fz.Fatal(err)
	}
	fz.Fuzz(func(t *testing.T, method, target, auth, kind, encoding, chain string, body []byte) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return // the server refuses it before the handler
		}
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body)))
		r.Method, r.URL, r.RemoteAddr = method, u, "10.0.0.1:1"
		r.Header = http.Header{"Authorization": {auth}, "Content-Type": {kind}, "Content-Encoding": {encoding}, "X-Forwarded-For": {chain}}
		st.changes = nil
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !slices.Contains(statuses, w.Code) || !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %q: %d %s", method, target, w.Code, w.Body)
		}
		switch _, secret, _ := strings.Cut(auth, " "); {
		case w.Code == http.StatusAccepted && (len(st.changes) != 1 || secret != writer || method != http.MethodPost):
			t.Fatalf("%s %q with %q: accepted, and changed %q", method, target, auth, st.changes)
		case w.Code != http.StatusAccepted && len(st.changes) != 0:
			t.Fatalf("%s %q: %d, and changed %q", method, target, w.Code, st.changes)
		}
	})
}
