package intent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	resourceMax    = 256 // bytes
	profileMax     = 64
	defaultProfile = "default"
	atMin          = 1000      // ms, so that 0 in the canonical form means now
	atMax          = 1<<53 - 1 // the largest integer that every JSON reader keeps exact
)

// ErrInvalid means that the request is malformed. The text names the member and
// the allowed values.
var ErrInvalid = errors.New("invalid intent")

// Request is what a client asks for: work on Resource. Profile says how to do
// the work; two requests of one resource with different profiles are different.
type Request struct {
	Resource string // 1 to 256 bytes of printable ASCII without spaces
	Profile  string // up to 64 of A-Z a-z 0-9 . _ -; "": "default"
	At       int64  // its start, in ms since 1970, at least 1000; 0: now
}

// Canonical returns r in the form in which requests are stored and compared.
// For an invalid r it returns ErrInvalid, whose text uses the names of n.
func (r Request) Canonical(n Names) (Request, error) {
	length, names := len(r.Resource), n.Table()
	r.Resource = strings.TrimRight(r.Resource, ":")
	if r.Profile == "" {
		r.Profile = defaultProfile
	}
	bad := func(member, format string, args ...any) (Request, error) {
		return r, fmt.Errorf("%w: %s %s", ErrInvalid, member, fmt.Sprintf(format, args...))
	}
	switch {
	case r.Resource == "":
		return bad(names.ResourceMember, "is missing or empty")
	case length > resourceMax:
		return bad(names.ResourceMember, "has %d bytes; at most %d are allowed", length, resourceMax)
	case len(r.Profile) > profileMax:
		return bad("profile", "has %d bytes; at most %d are allowed", len(r.Profile), profileMax)
	case r.At != 0 && (r.At < atMin || r.At > atMax):
		return bad(names.AtMember, "is %d; it must be %d to %d (leave it out for live)", r.At, atMin, int64(atMax))
	}
	for i := range len(r.Resource) {
		if c := r.Resource[i]; c <= ' ' || c > '~' {
			return bad(names.ResourceMember, "has byte 0x%02x at %d; printable ASCII without spaces is allowed", c, i)
		}
	}
	for i := range len(r.Profile) {
		if !profileByte(r.Profile[i]) {
			return bad("profile", "has byte 0x%02x at %d; A-Z a-z 0-9 . _ - are allowed", r.Profile[i], i)
		}
	}
	return r, nil
}

func profileByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// form returns the text that Key hashes.
func (r Request) form(n Names) string {
	return "v1:" + n.Table().Verb + "start:" + r.Resource + ":" + r.Profile + ":" + strconv.FormatInt(r.At/1000, 10)
}

// Key returns the idempotency key. r must be canonical.
func (r Request) Key(n Names) string {
	sum := sha256.Sum256([]byte(r.form(n)))
	return hex.EncodeToString(sum[:])
}
