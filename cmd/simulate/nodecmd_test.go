package main

import (
	"context"
	"io"
	"slices"
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

// A command line is read as a shell reads it, and what is printed for a replay is read back as the same words.
func TestCommandLines(t *testing.T) {
	t.Setenv("WHERE", "some where")
	for line, want := range map[string][]string{
		"python3 node.py":                   {"python3", "node.py"},
		"BUG=x  Y= python3 node.py":         {"BUG=x", "Y=", "python3", "node.py"},
		`BUG="a b" 'my node' --x \"q\" '*'`: {"BUG=a b", "my node", "--x", `"q"`, "*"},
		`"$WHERE/node" a$WHERE`:             {"some where/node", "asome", "where"},
		`sh -c 'exec "$0" | cat' ''`:        {"sh", "-c", `exec "$0" | cat`, ""},
	} {
		got, err := splitCommand(line)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", line, got, err)
			continue
		}
		flags, err := splitCommand(replayFlags(got))
		if err != nil || len(flags) != 2 || flags[0] != "--node-cmd" {
			t.Errorf("%s: printed as %s", line, replayFlags(got))
			continue
		}
		if again, err := splitCommand(flags[1]); err != nil || !slices.Equal(again, want) {
			t.Errorf("%s: printed as %s, which is read as %q, %v", line, replayFlags(got), again, err)
		}
	}
	if got, want := replayFlags([]string{"BUG=x", "sh", "it.sh"}), " --node-cmd 'BUG=x sh it.sh'"; got != want {
		t.Errorf("prints%s, want%s", got, want)
	}
	for _, line := range []string{"", "  ", "'node", "node | cat", "node > file", "node $(id)", "node; node"} {
		if got, err := splitCommand(line); err == nil {
			t.Errorf("%q is read as %q", line, got)
		}
	}
}
