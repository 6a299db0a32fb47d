package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// A removed token is refused at once. Unusable tokens leave the earlier ones in force.
func TestTokensAreReplaced(t *testing.T) {
	f := setup(t, Config{})
	with := func(secret string) int {
		resp, _ := f.do(call{method: http.MethodGet, path: "/sessions", auth: "Bearer " + secret})
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
	for name, bad := range map[string][]Token{
		"none": nil, "a scope": {NewToken("x", "x", "root")}, "a hash": {NewToken("x", "x", intent.ScopeRead), NewToken("y", "x", intent.ScopeRead)},
		"a name": {NewToken("x", "x", intent.ScopeRead), NewToken("x", "y", intent.ScopeRead)},
	} {
		if err := f.handler.(*Handler).SetTokens(bad); !errors.Is(err, lease.ErrInvalidConfig) {
			t.Errorf("%s: %v, want lease.ErrInvalidConfig", name, err)
		}
	}
	if code := with("another-secret"); code != http.StatusOK {
		t.Errorf("after what was refused: %d", code)
	}
}

// The log could not distinguish two tokens of one name, and nobody could revoke only one. ParseTokens refuses them and names the line.
func TestTokensOfOneNameAreRefused(t *testing.T) {
	_, err := ParseTokens(strings.NewReader("a sha256:"+strings.Repeat("ab", 32)+" read\n# b\n\na sha256:"+strings.Repeat("cd", 32)+" read\n"), intent.Names{})
	if !errors.Is(err, lease.ErrInvalidConfig) || !strings.Contains(err.Error(), "line 4") {
		t.Errorf("%v, want lease.ErrInvalidConfig and line 4", err)
	}
}
