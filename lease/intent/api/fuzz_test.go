package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/sessionid"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// recorder is a Store that only remembers what it was asked to change.
type recorder struct{ changes []string }

func (s *recorder) PutSessionWithIdempotency(_ context.Context, x intent.Session, key string, _ time.Duration) (string, bool, error) {
	s.changes = append(s.changes, key)
	return x.ID, false, nil
}

func (s *recorder) PutSessionWithLease(ctx context.Context, x intent.Session, key string, ttl time.Duration) (string, bool, error) {
	return s.PutSessionWithIdempotency(ctx, x, key, ttl)
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

func (s *recorder) Kept(context.Context) (int, error) { return 0, nil }

// FuzzRequest sends any request through the whole handler: the answer is JSON with one of the statuses that the document
// knows, what is refused has changed nothing (I4), and what is accepted exactly one thing, shown a token that may write.
func FuzzRequest(fz *testing.F) {
	const uuid = "0190a8c2-8f5e-7c2a-9d7e-3b1f6a2c4d5e"
	fz.Add("POST", "/api/v3/intents", "Bearer "+writer, "application/json", "", "", []byte(startBody("a", "p")))
	fz.Add("POST", "/api/v3/intents", "Bearer "+writer, "application/json; charset=utf-8", "identity", "10.0.0.1, 203.0.113.9",
		[]byte(`{"type":"stream.stop","sessionId":"`+uuid+`"}`))
	fz.Add("GET", "/api/v3/sessions?limit=5&cursor="+uuid, "bearer "+reader, "", "", "", []byte{})
	fz.Add("HEAD", "/api/v3/sessions/"+uuid, "Bearer "+reader, "", "", "::1", []byte{})
	for _, path := range []string{"/healthz", "/readyz", "/api/v3/openapi.json", "/api/v3/sessions/", "//"} {
		fz.Add("GET", path, "Bearer "+stale, "text/plain", "gzip", "unknown", []byte("x"))
	}
	statuses := []int{200, 202, 400, 401, 403, 404, 405, 413, 415}
	st := &recorder{}
	h, err := NewHandler(st, Config{
		Quotas:         noQuotas,
		Tokens:         []Token{NewToken("w", writer, intent.ScopeWrite), NewToken("r", reader, intent.ScopeRead)},
		TrustedProxies: LAN(), BodyMax: 1000,
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

// FuzzTokens reads any file of tokens: it is refused in one line that names the line, or every token in it can be used.
func FuzzTokens(fz *testing.F) {
	sum := strings.Repeat("ab", 32)
	fz.Add("# people\n\nann sha256:" + sum + " v3:write,v3:read\nbob sha256:" + sum + " v3:read 2030-01-02T03:04:05Z\n")
	fz.Add("ann sha256:" + sum[:10] + " v3:read")
	fz.Add("\x00 sha256: ,")
	fz.Fuzz(func(t *testing.T, text string) {
		tokens, err := ParseTokens(strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, ErrConfig) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q: %q", text, err)
			}
			return
		}
		if len(tokens) == 0 {
			return
		}
		if _, err := NewHandler(&recorder{}, Config{Tokens: tokens}); err != nil {
			t.Fatalf("%q was read and cannot be used: %v", text, err)
		}
	})
}

// FuzzProxies reads any list of networks: it is refused by what is wrong with it, or each is as narrow as a private network may be,
// and the list that they make reads the same.
func FuzzProxies(fz *testing.F) {
	for _, text := range []string{"10.0.0.1/32,fc00::/7", "::ffff:10.0.0.1/128", "0.0.0.0/0", "10.0.0.1", "", ",", "::ffff:0:0/95", "fe80::1%eth0/64"} {
		fz.Add(text)
	}
	fz.Fuzz(func(t *testing.T, text string) {
		nets, err := ParseProxies(text)
		if err != nil {
			if !errors.Is(err, ErrConfig) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		var words []string
		for _, n := range nets {
			if !n.IsValid() || n.Addr().Is4() && n.Bits() < proxyBits4 || n.Addr().Is6() && n.Bits() < proxyBits6 || n.Addr().Is4In6() {
				t.Fatalf("%q trusts %v", text, n)
			}
			words = append(words, n.String())
		}
		if again, err := ParseProxies(strings.Join(words, ",")); err != nil || !slices.Equal(again, nets) {
			t.Fatalf("%q is %v, and read again %v, %v", text, nets, again, err)
		}
	})
}

// FuzzPage asks for any page of sessions: the store is asked only for a cursor that a page may have ended with, within the limit.
func FuzzPage(fz *testing.F) {
	for _, query := range []string{
		"limit=5&cursor=0190a8c2-8f5e-7c2a-9d7e-3b1f6a2c4d5e", "cursor=0190A8C2-8F5E-7C2A-9D7E-3B1F6A2C4D5E", "limit=0", "limit=%31", "cursor=%00&cursor=",
		"limit=1&limit=2", ";", "more=1", "cursor=(", "limit=+5", "limit=99999999999999999999",
	} {
		fz.Add(query)
	}
	st := &pages{}
	h, err := NewHandler(st, Config{Quotas: noQuotas, Tokens: []Token{NewToken("r", reader, intent.ScopeRead)}})
	if err != nil {
		fz.Fatal(err)
	}
	fz.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest(http.MethodGet, "/api/v3/sessions", nil)
		r.URL.RawQuery, r.RemoteAddr = query, "10.0.0.1:1"
		r.Header = http.Header{"Authorization": {"Bearer " + reader}}
		*st = pages{}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !json.Valid(w.Body.Bytes()) || st.asked != (w.Code == http.StatusOK) || !st.asked && w.Code != http.StatusBadRequest {
			t.Fatalf("%q: %d %s", query, w.Code, w.Body)
		}
		if st.asked && (st.limit < 1 || st.limit > PageMax || st.cursor != "" && !sessionid.Valid(st.cursor)) {
			t.Fatalf("%q: asked for %d after %q", query, st.limit, st.cursor)
		}
	})
}

// pages is a Store that remembers which page it was asked for.
type pages struct {
	recorder
	asked  bool
	cursor string
	limit  int
}

func (s *pages) List(_ context.Context, cursor string, limit int) ([]intent.Session, string, error) {
	s.asked, s.cursor, s.limit = true, cursor, limit
	return nil, "", nil
}
