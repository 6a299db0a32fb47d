package lease

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Names of sessions that a foreign hand chose are neither long nor anything but text, whoever counted them.
func TestSkippedNamesAreTextAndShort(t *testing.T) {
	foreign := "session:\x1b[31m\x07\r\n\xff" + strings.Repeat("k", 5_000_000)
	left := &SkippedError{}
	left.Skip(foreign)
	given := &SkippedError{Count: 7, Names: []string{foreign}}
	for _, e := range []*SkippedError{left, given.clone()} {
		said := Health{Skipped: e.Count, SkippedNames: e.Names}.String()
		if len(said) > 600 || strings.ContainsAny(said, "\x1b\x07\r\n") || !utf8.ValidString(said) || !strings.Contains(said, "session:") {
			t.Errorf("%d bytes: %.200q", len(said), said)
		}
	}
	if c := given.clone(); c.Count != 7 || len(c.Names) != 1 {
		t.Errorf("%+v", c)
	}
}
