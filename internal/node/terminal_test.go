package node

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// moving are characters that move a terminal's cursor or change the direction of its text.
const moving = "\x7f\u0084\u009b2J\u200e\u200f\u202a\u202e\u2066\u2069"

// Arguments, names and data of Redis reach a terminal only as text.
func TestNothingMovesTheTerminal(t *testing.T) {
	server := redistest.Start(t)
	server.Do("XADD", "v3:dead", "*", "why", moving, "field"+moving, moving)
	redis := "LEASESTORM_REDIS_URL=redis://" + server.Addr()
	tokens := "LEASESTORM_TOKENS=a" + moving + " sha256:" + hex64 + " v3:read 2001-01-01T00:00:00Z"
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	printed := func(what any, out string) {
		if strings.ContainsAny(out, strings.ReplaceAll(moving, "2J", "")) || !strings.Contains(out, `u202e`) {
			t.Errorf("%q printed %q", what, out)
		}
	}
	for _, args := range [][]string{
		{"intents", "dead-letters", "list"}, {"--system=intents", "--help"}, {"--system=intents", "--role=api", "--api=" + moving + ":99999"},
		{"--system=intents", "--role=" + moving}, {"x" + moving}, {"--help"},
	} {
		cmd := exec.CommandContext(t.Context(), exe, args...)
		cmd.Env = append(os.Environ(), asNode+"=1", redis, tokens, "LEASESTORM_NODE=w"+moving, "LEASESTORM_LOG=debug")
		out, _ := cmd.CombinedOutput()
		printed(args, string(out))
	}
	env := []string{redis, tokens, "LEASESTORM_NODE=w" + moving}
	<-startChild(t, env, "intents", "bootstrap").done
	c := startChild(t, env, "--system=intents", "--api=127.0.0.1:0")
	c.wait("ready")
	c.signal(syscall.SIGTERM)
	<-c.done
	printed("the log", c.log.String())
}
