package inner

import (
	"fmt"
	"strings"

	"github.com/leasestorm/leasestorm/internal/plain"
)

const skippedMax = 5

// SkippedText is how many bytes of each text are shown.
const SkippedText = 300

// Skipped is an error beside valid sessions: some are malformed and left out.
type Skipped struct {
	Count int
	Names []string // some of them, each with its fault
}

// Error implements error.
func (e *Skipped) Error() string {
	return fmt.Sprintf("%d malformed sessions are left out: %s", e.Count, strings.Join(e.Names, "; "))
}

// Skip counts one more malformed session. It escapes and shortens the text, because anybody who may write to Redis chooses the names in
// it.
func (e *Skipped) Skip(what string) {
	e.Count++
	if len(e.Names) < skippedMax {
		e.Names = append(e.Names, plain.Text(plain.Cut(what, SkippedText)))
	}
}

// Skipped returns the fields, for lease.Config.Sessions.
func (e *Skipped) Skipped() (count int, names []string) { return e.Count, e.Names }
