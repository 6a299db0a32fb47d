// Package sessionid says what the ID of a session is that has no name: one rule for all that take one, since what one takes for two
// IDs and another for one would be a session with two leases.
package sessionid

import (
	"strings"

	"github.com/google/uuid"
)

// Valid reports whether id is a UUID of 36 characters in lower case. Other ways to write the same UUID are none.
func Valid(id string) bool {
	return len(id) == 36 && uuid.Validate(id) == nil && strings.ToLower(id) == id
}
