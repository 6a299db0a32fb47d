package main

import (
	"context"
	"io"
	"strings"
	"testing"
)

// Nothing but a yes starts a program, and what is shown holds no control character.
func TestAsksBeforeStarting(t *testing.T) {
	shown := quoted([]string{"sh", "a b", "\x1b[2J", ""})
	if want := `sh "a b" "\x1b[2J" ""`; shown != want {
		t.Errorf("shows %s, want %s", shown, want)
	}
	for answer, want := range map[string]bool{
		"yes\n": true, "y\n": true, " yes \n": true, "no\n": false, "\n": false, "": false, "yes please\n": false, "YES!\n": false,
	} {
		var out strings.Builder
		if got := yes(t.Context(), strings.NewReader(answer), &out, shown); got != want {
			t.Errorf("%q: %v", answer, got)
		}
		if !strings.Contains(out.String(), shown) {
			t.Errorf("asks %q", out.String())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if yes(ctx, strings.NewReader("yes\n"), io.Discard, shown) {
		t.Error("an interrupt is a yes")
	}
}
