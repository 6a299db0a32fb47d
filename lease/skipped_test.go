package lease

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/leasestorm/leasestorm/internal/inner"
)

// The log shows session names from other programs only as short text.
func TestSkippedNamesAreTextAndShort(t *testing.T) {
	foreign := "session:\x1b[31m\x07\r\n\xff" + strings.Repeat("k", 5_000_000)
	left := &inner.Skipped{}
	left.Skip(foreign)
	said := Health{State: HealthOK, Skipped: left.Count, SkippedNames: left.Names}.String()
	if len(said) > 600 || strings.ContainsAny(said, "\x1b\x07\r\n") || !utf8.ValidString(said) || !strings.Contains(said, "session:") {
		t.Errorf("%d bytes: %.200q", len(said), said)
	}
}
