package intent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Bounds of a start.
const (
	ServiceRefMax  = 256 // bytes
	ProfileMax     = 64
	DefaultProfile = "default"
	// StartMsMin is the earliest start time of catch-up, in ms. Bucket 0 means live.
	StartMsMin = 1000
	// StartMsMax is the latest start time, in ms: the largest integer that every JSON reader keeps exact.
	StartMsMax = 1<<53 - 1
)

// ErrInvalid means that the request is malformed. The text names the member and the allowed values.
var ErrInvalid = errors.New("invalid intent")

// Start is a client's request to start a stream.
type Start struct {
	ServiceRef string
	Profile    string
	StartMs    int64 // start of catch-up, in ms since 1970; 0: live
}

// Canonical returns s in the form that is stored and compared, or ErrInvalid.
func (s Start) Canonical() (Start, error) {
	length := len(s.ServiceRef)
	s.ServiceRef = strings.TrimRight(s.ServiceRef, ":")
	if s.Profile == "" {
		s.Profile = DefaultProfile
	}
	switch {
	case s.ServiceRef == "":
		return s, fmt.Errorf("%w: serviceRef is missing or empty", ErrInvalid)
	case length > ServiceRefMax:
		return s, fmt.Errorf("%w: serviceRef has %d bytes; at most %d are allowed", ErrInvalid, length, ServiceRefMax)
	case len(s.Profile) > ProfileMax:
		return s, fmt.Errorf("%w: profile has %d bytes; at most %d are allowed", ErrInvalid, len(s.Profile), ProfileMax)
	case s.StartMs != 0 && (s.StartMs < StartMsMin || s.StartMs > StartMsMax):
		return s, fmt.Errorf("%w: startMs is %d; it must be %d to %d (leave it out for live)", ErrInvalid, s.StartMs,
			StartMsMin, int64(StartMsMax))
	}
	for i := range len(s.ServiceRef) {
		if c := s.ServiceRef[i]; c <= ' ' || c > '~' {
			return s, fmt.Errorf("%w: serviceRef has byte 0x%02x at %d; printable ASCII without spaces is allowed", ErrInvalid, c, i)
		}
	}
	for i := range len(s.Profile) {
		if !profileByte(s.Profile[i]) {
			return s, fmt.Errorf("%w: profile has byte 0x%02x at %d; A-Z a-z 0-9 . _ - are allowed", ErrInvalid, s.Profile[i], i)
		}
	}
	return s, nil
}

func profileByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// CanonicalForm returns the text that Key hashes. s must be canonical.
func (s Start) CanonicalForm() string {
	return "v1:stream.start:" + s.ServiceRef + ":" + s.Profile + ":" + strconv.FormatInt(s.StartMs/1000, 10)
}

// Key returns the idempotency key. s must be canonical.
func (s Start) Key() string {
	sum := sha256.Sum256([]byte(s.CanonicalForm()))
	return hex.EncodeToString(sum[:])
}
