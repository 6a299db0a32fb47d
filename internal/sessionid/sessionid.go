// Package sessionid validates the IDs of sessions. Two spellings of one ID would give a session two leases, so everybody uses this rule.
package sessionid

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/leasestorm/leasestorm/internal/plain"
)

// Valid reports whether id is a UUID of 36 characters in lower case, the only accepted form.
func Valid(id string) bool {
	return len(id) == 36 && uuid.Validate(id) == nil && strings.ToLower(id) == id
}

// ErrInvalid means that a text is not the ID of a session.
var ErrInvalid = errors.New("not the ID of a session")

const nameMax = 128 // bytes

// Check returns ErrInvalid, with id and the accepted form, unless id is Valid or, if names are allowed, a name.
func Check(id string, names bool) error {
	switch {
	case !names && Valid(id):
		return nil
	case !names:
		return fmt.Errorf("%w: %q (it must be a lower-case UUID such as 0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e; set NamedSessions to allow names)",
			ErrInvalid, plain.Cut(id, nameMax))
	case id == "" || len(id) > nameMax || strings.ContainsFunc(id, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("{}:/", r)
	}):
		return fmt.Errorf("%w: %q (it must have 1 to %d bytes of printable ASCII without space, braces, colon and slash)",
			ErrInvalid, plain.Cut(id, nameMax), nameMax)
	}
	return nil
}
