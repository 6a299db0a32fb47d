package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// Whoever names a lease is offered to no shell that would evaluate the name, or take it for a flag.
func TestHostileNamesAreNotCompleted(t *testing.T) {
	srv := redistest.Start(t)
	for _, name := range []string{
		"job-1", "a:b/c@d_e+f.g", "$(touch x)a", "`id>x`b", "--redis=redis://127.0.0.1:1", "-h", "_activeHelp_ do it", "a;b", "a b", "a'b", `a"b`,
		`a\b`, "a|b", "a&b", "~a", "*", "a\tb", "a\nb", "é",
	} {
		srv.Do("SET", "poll:lease:"+name, "somebody", "PX", 60_000)
	}
	var out, said bytes.Buffer
	args := []string{"__complete", "release", "--redis", srv.URL(), ""}
	if code := execute(context.WithoutCancel(t.Context()), args, &out, &said); code != exitFine {
		t.Fatalf("exit %d: %s", code, said.String())
	}
	names, _, _ := strings.Cut(out.String(), "\n:")
	if names != "a:b/c@d_e+f.g\njob-1" && names != "job-1\na:b/c@d_e+f.g" {
		t.Errorf("offered: %q", names)
	}
}
