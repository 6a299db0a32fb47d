package api

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// Token is a client's credential. The API keeps only the token's hash. A token
// needs at least 128 random bits, so that nobody can find it from its hash.
type Token struct {
	Name   string // for display and the log
	SHA256 [sha256.Size]byte
	// Scopes are intent.ScopeWrite and intent.ScopeRead; with intent.ADR003,
	// they are "v3:write" and "v3:read".
	Scopes  []string
	Expires time.Time // zero: never

	_ struct{}
}

// NewToken returns the token for a secret.
func NewToken(name, secret string, scopes ...string) Token {
	return Token{Name: name, SHA256: sha256.Sum256([]byte(secret)), Scopes: scopes}
}

// ParseTokens reads one token per line: name, sha256:<64 hex digits>,
// comma-separated scopes and optionally an RFC 3339 expiry. It skips empty
// lines and # comments.
func ParseTokens(r io.Reader, names intent.Names) ([]Token, error) {
	var tokens []Token
	var apart distinct
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		t, err := parseToken(words, names)
		if err != nil {
			return nil, fmt.Errorf("%w: tokens, line %d: %w", lease.ErrInvalidConfig, n, err)
		}
		if err := apart.add(&t); err != nil {
			return nil, fmt.Errorf("%w: tokens, line %d: %w", lease.ErrInvalidConfig, n, err)
		}
		tokens = append(tokens, t)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: tokens: %w", lease.ErrInvalidConfig, err)
	}
	return tokens, nil
}

type distinct struct {
	byHash map[[sha256.Size]byte]string
	named  map[string]bool
}

// add refuses a token that has the hash or the name of another token, because
// an operator could not distinguish the two, or revoke only one.
func (d *distinct) add(t *Token) error {
	if d.byHash == nil {
		d.byHash, d.named = map[[sha256.Size]byte]string{}, map[string]bool{}
	}
	if other, known := d.byHash[t.SHA256]; known {
		return fmt.Errorf("the token %q has the hash of the token %q; give each its own", t.Name, other)
	}
	if d.named[t.Name] {
		return fmt.Errorf("another token has the name %q; give each its own", t.Name)
	}
	d.byHash[t.SHA256], d.named[t.Name] = t.Name, true
	return nil
}

// tokens are the accepted tokens. It is safe for concurrent use.
type tokens struct {
	names intent.Names
	all   atomic.Pointer[[]Token]
}

func (s *tokens) set(tokens []Token) error {
	if len(tokens) == 0 {
		return fmt.Errorf("%w: Tokens is empty: every request would be refused", lease.ErrInvalidConfig)
	}
	own := slices.Clone(tokens)
	var apart distinct
	for i := range own {
		err := own[i].validate(s.names)
		if err == nil {
			err = apart.add(&own[i])
		}
		if err != nil {
			return fmt.Errorf("%w: %w", lease.ErrInvalidConfig, err)
		}
	}
	s.all.Store(&own)
	return nil
}

func parseToken(words []string, names intent.Names) (Token, error) {
	if len(words) < 3 || len(words) > 4 {
		return Token{}, fmt.Errorf("%d words; expected: name sha256:<hex> scope,scope [expires]", len(words))
	}
	t := Token{Name: words[0], Scopes: strings.Split(words[2], ",")}
	sum, err := hex.DecodeString(strings.TrimPrefix(words[1], "sha256:"))
	if err != nil || len(sum) != sha256.Size || !strings.HasPrefix(words[1], "sha256:") {
		// The error does not quote the line: by mistake, the token file may be a link to another file, and the line a password.
		return Token{}, errors.New("the second word is not sha256: and 64 hexadecimal digits")
	}
	copy(t.SHA256[:], sum)
	if len(words) == 4 {
		if t.Expires, err = time.Parse(time.RFC3339, words[3]); err != nil {
			return Token{}, fmt.Errorf("the expiry of %q: %w", t.Name, err)
		}
	}
	return t, t.validate(names)
}

func (t *Token) validate(names intent.Names) error {
	if t.Name == "" || t.SHA256 == [sha256.Size]byte{} || len(t.Scopes) == 0 {
		return fmt.Errorf("token %q needs a name, a hash and a scope", t.Name)
	}
	write, read := names.Table().Scope+intent.ScopeWrite, names.Table().Scope+intent.ScopeRead
	for _, s := range t.Scopes {
		if s != write && s != read {
			return fmt.Errorf("token %q has the scope %q; known scopes are %s and %s", t.Name, s, write, read)
		}
	}
	return nil
}

func (s *tokens) authorize(r *http.Request, scope string) (*Token, *problem) {
	scope = s.names.Table().Scope + scope
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return nil, unauthorized("", "send Authorization: Bearer <token>")
	}
	kind, secret, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(kind, "Bearer") || !tokenForm(secret) {
		return nil, unauthorized("invalid_request", "the Authorization header is malformed; send Bearer <token>, once")
	}
	token := s.find(secret)
	switch {
	case token == nil:
		return nil, unauthorized("invalid_token", "the token is not known")
	case !token.Expires.IsZero() && !time.Now().Before(token.Expires):
		return nil, unauthorized("invalid_token", "the token has expired")
	}
	if !slices.Contains(token.Scopes, scope) {
		p := refused(http.StatusForbidden, "insufficient-scope", "the token does not have the scope "+scope)
		p.challenge = `Bearer error="insufficient_scope", scope="` + scope + `"`
		return token, p
	}
	return token, nil
}

func unauthorized(code, detail string) *problem {
	p := refused(http.StatusUnauthorized, "unauthorized", detail)
	p.challenge = "Bearer"
	if code != "" {
		p.challenge += ` error="` + code + `"`
	}
	return p
}

// tokenForm reports whether s is a token68 of RFC 7235, of at most 512 bytes.
func tokenForm(s string) bool {
	body := strings.TrimRight(s, "=")
	if body == "" || len(s) > 512 {
		return false
	}
	for i := range len(body) {
		c := body[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~+/", c) >= 0) {
			return false
		}
	}
	return true
}

// find compares the secret with every token in constant time, so that the
// response time does not reveal a near match.
func (s *tokens) find(secret string) *Token {
	sum := sha256.Sum256([]byte(secret))
	var found *Token
	tokens := *s.all.Load()
	for i := range tokens {
		if subtle.ConstantTimeCompare(sum[:], tokens[i].SHA256[:]) == 1 {
			found = &tokens[i]
		}
	}
	return found
}
