package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// reading is a body, of which what is called is called before its first byte.
type reading struct {
	io.Reader
	began func()
}

func (r reading) Read(p []byte) (int, error) {
	r.began()
	return r.Reader.Read(p)
}

// A token that is taken away is refused from then on; what cannot be the tokens leaves those that were.
func TestTokensAreReplaced(t *testing.T) {
	f := setup(t, Config{})
	with := func(secret string) int {
		resp, _ := f.do(call{method: http.MethodGet, path: "/api/v3/sessions", auth: "Bearer " + secret})
		return resp.StatusCode
	}
	if code := with(reader); code != http.StatusOK {
		t.Fatalf("at first: %d", code)
	}
	other := NewToken("other", "another-secret", intent.ScopeRead)
	if err := f.handler.(*Handler).SetTokens([]Token{other}); err != nil {
		t.Fatal(err)
	}
	if old, now := with(reader), with("another-secret"); old != http.StatusUnauthorized || now != http.StatusOK {
		t.Errorf("replaced: %d, %d; want 401 and 200", old, now)
	}
	late := reading{strings.NewReader(startBody("a", "p")), func() {
		if err := f.handler.(*Handler).SetTokens([]Token{other}); err != nil {
			t.Error(err)
		}
	}}
	if err := f.handler.(*Handler).SetTokens([]Token{NewToken("w", writer, intent.ScopeWrite)}); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/api/v3/intents", late)
	r.Header.Set("Authorization", "Bearer "+writer)
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = "127.0.0.1:5000"
	w := httptest.NewRecorder()
	if f.handler.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
		t.Errorf("taken away while the body is on its way: %d, want 401", w.Code)
	}
	for name, bad := range map[string][]Token{
		"none": nil, "a scope": {NewToken("x", "x", "root")}, "a hash": {NewToken("x", "x", intent.ScopeRead), NewToken("y", "x", intent.ScopeRead)},
		"a name": {NewToken("x", "x", intent.ScopeRead), NewToken("x", "y", intent.ScopeRead)},
	} {
		if err := f.handler.(*Handler).SetTokens(bad); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", name, err)
		}
	}
	if code := with("another-secret"); code != http.StatusOK {
		t.Errorf("after what was refused: %d", code)
	}
}

// Two tokens of one name cannot be told apart in the log, nor one be taken back: the line is named.
func TestTokensOfOneNameAreRefused(t *testing.T) {
	_, err := ParseTokens(strings.NewReader("a sha256:" + strings.Repeat("ab", 32) + " v3:read\n# b\n\na sha256:" + strings.Repeat("cd", 32) + " v3:read\n"))
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "line 4") {
		t.Errorf("%v, want ErrConfig and line 4", err)
	}
}

// A file of as many tokens as fit is taken apart at once: none is compared with all that stand before it.
func TestManyTokensAreTakenApart(t *testing.T) {
	const tokens = 100_000
	var file strings.Builder
	for i := range tokens {
		fmt.Fprintf(&file, "%d sha256:%064x v3:read\n", i, i+1)
	}
	began := time.Now()
	parsed, err := ParseTokens(strings.NewReader(file.String()))
	if took := time.Since(began); err != nil || len(parsed) != tokens || took > 10*time.Second {
		t.Errorf("%d tokens in %v, %v", len(parsed), took, err)
	}
}
