package main

import (
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// A quarantine that began while Redis' clock was ahead lasts as long once the clock is right. check says so, and what it says ends it.
func TestQuarantineOfAClockAhead(t *testing.T) {
	s := redistest.Start(t)
	run := func(args ...string) string {
		var out strings.Builder
		execute(t.Context(), append(args, "--redis", s.URL()), &out, &out)
		return out.String()
	}
	run("bootstrap", "--quarantine", "2s")
	client := s.Client()
	id, _, _ := strings.Cut(client.Get(t.Context(), "poll:epoch").Val(), " ")
	ahead := id + " 9000000000000000" // in the year 2255
	s.Do("SET", "poll:epoch", ahead)
	s.Do("HSET", "poll:epoch:group", "epoch", ahead)
	const mend = "leasectl quarantine 2s"
	if out := run("check"); !strings.Contains(out, "clock was ahead") || !strings.Contains(out, mend) {
		t.Errorf("check does not say how to end it:\n%s", out)
	}
	run(strings.Fields(mend)[1:]...)
	if out := run("check"); strings.Contains(out, "clock was ahead") {
		t.Errorf("%s did not end it:\n%s", mend, out)
	}
}
