package node

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisflags"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// canary is part of each password. No output may contain it.
const canary = "c4n4ry"

// ran runs the node to its end and returns its output and exit code.
func ran(t *testing.T, env []string, args ...string) (string, int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(append(os.Environ(), asNode+"=1"), env...)
	cmd.WaitDelay = time.Minute
	var all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &all, &all
	_ = cmd.Run() // the exit code has the error
	return all.String(), cmd.ProcessState.ExitCode()
}

// No command prints a password of Redis or of the target, whatever its source and whatever is wrong with it.
func TestPasswordIsNeverPrinted(t *testing.T) {
	server := redistest.Start(t, redistest.Password("another"))
	right := "redis://u:c4n4ry@" + server.Addr()
	quiet := func(env []string, args ...string) {
		t.Helper()
		if text, code := ran(t, env, args...); strings.Contains(text, canary) || text == "" || code == 2 {
			t.Errorf("%v, %v: exit %d: %s", env, args, code, text)
		}
	}
	for _, words := range []string{
		"--help", "bootstrap --help", "--system election --help", "--system intents --help", "intents dead-letters list --help",
		"bootstrap --system election", "quarantine 30s", "replicas 2", "--target http://127.0.0.1:1 --bogus", "--target http://127.0.0.1:1", "--ttl x",
		"intents dead-letters drop 1", "intents bootstrap", "--system intents --role none", "--system intents --role worker --tuners 1",
	} {
		quiet([]string{redisflags.URLVariable + "=" + right}, strings.Fields(words)...)
		quiet([]string{redisflags.URLVariable + "=redis://" + server.Addr(), "LEASESTORM_REDIS_PASSWORD=" + canary}, strings.Fields(words)...)
		quiet([]string{redisflags.URLVariable + "=" + right, "LEASESTORM_TARGET_URL=http://u:" + canary + "@127.0.0.1:1"}, strings.Fields(words)...)
		quiet([]string{redisflags.URLVariable + "=" + right, "LEASESTORM_SENTINELS=" + right, "LEASESTORM_MASTER_NAME=m"}, strings.Fields(words)...)
	}
	for _, raw := range []string{
		right, "redis://u:c4n4ry@127.0.0.1:1", "redis://u:c4n4ry@h:port", "redis:/u:c4n4ry@h:1", "redis://u:c4n4ry@h:1/x", "http://:c4n4ry@h",
	} {
		for _, words := range []string{"bootstrap", "intents dead-letters list"} {
			command := strings.Fields(words)
			quiet([]string{redisflags.URLVariable + "=" + raw}, command...)
			quiet(nil, append(command, "--redis="+raw)...)
			quiet(nil, append(command, "-redis="+raw)...)
			quiet(nil, append(command, "--redis", "redis://h:1", raw)...)
		}
		quiet(nil, raw, "--help=x")
	}
}

// Not even a part of a long password is printed. A Redis that knows neither AUTH nor HELLO repeats their arguments, cut after 128 bytes.
func TestLongPasswordIsNeverPrinted(t *testing.T) {
	server := redistest.Start(t, redistest.Args("--rename-command", "AUTH", "", "--rename-command", "HELLO", ""))
	env := []string{redisflags.URLVariable + "=redis://app@" + server.Addr(), "LEASESTORM_REDIS_PASSWORD=" + strings.Repeat("0123456789abcdef", 8)}
	for _, words := range []string{"bootstrap", "quarantine 30s", "replicas 2", "intents bootstrap", "intents dead-letters list"} {
		text, code := ran(t, env, strings.Fields(words)...)
		if strings.Contains(text, "0123") || !strings.Contains(text, "ERR unknown command 'auth'") || code != exitWrong {
			t.Errorf("%s: exit %d: %s", words, code, text)
		}
	}
}

// Each command warns once of a server whose certificate is not verified.
func TestUnverifiedServerIsTold(t *testing.T) {
	for _, words := range []string{"bootstrap", "bootstrap --system election", "quarantine 30s", "replicas 2", "intents replicas 2", "intents bootstrap",
		"intents quarantine 30s", "intents dead-letters list",
	} {
		for raw, want := range map[string]int{
			"rediss://127.0.0.1:1?skip_verify=true": 1, "rediss://127.0.0.1:1": 0, "redis://127.0.0.1:1": 0,
		} {
			text, code := ran(t, []string{redisflags.URLVariable + "=" + raw}, strings.Fields(words)...)
			if got := strings.Count(text, "impersonate Redis"); got != want || code != exitWrong {
				t.Errorf("%s at %s: exit %d, %d warnings: %s", words, raw, code, got, text)
			}
		}
	}
}

// Arguments reach the terminal only as text.
func TestArgumentsArePlain(t *testing.T) {
	for _, args := range []string{"--redis=redis://h", "--ttl", "--log", "quarantine", "--system intents", "--\u009b"} {
		text, code := ran(t, []string{redisflags.URLVariable + "=redis://h"}, append(strings.Fields(args), "\x1b[2J\u009b2J")...)
		if strings.ContainsAny(text, "\x1b\u009b") || code != exitWrong || text == "" {
			t.Errorf("%s: exit %d: %q", args, code, text)
		}
	}
}

// A password from a file or from its own variable replaces the one in the URL.
func TestPasswordFromElsewhere(t *testing.T) {
	server := redistest.Start(t, redistest.Password(canary))
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(canary+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bare, stale := redisflags.URLVariable+"=redis://"+server.Addr(), redisflags.URLVariable+"=redis://:old@"+server.Addr()
	for i, c := range []struct {
		env, args []string
		code      int
	}{
		{env: []string{bare}, code: exitWrong},
		{env: []string{stale}, code: exitWrong},
		{env: []string{bare, "LEASESTORM_REDIS_PASSWORD=" + canary}},
		{env: []string{stale, "LEASESTORM_REDIS_PASSWORD=" + canary}},
		{env: []string{bare, "LEASESTORM_REDIS_PASSWORD_FILE=" + file, "LEASESTORM_REDIS_PASSWORD=old"}},
		{env: []string{stale}, args: []string{"--redis-password-file", file}},
		{env: []string{bare}, args: []string{"--redis-password-file", file + "2"}, code: exitWrong},
	} {
		for _, command := range []string{"bootstrap", "intents dead-letters list"} {
			server.Client().FlushAll(t.Context())
			text, code := ran(t, c.env, append(strings.Fields(command), c.args...)...)
			if code != c.code || strings.Contains(text, canary) {
				t.Errorf("%d, %s: exit %d, want %d: %s", i, command, code, c.code, text)
			}
		}
	}
}

// The command lowers the number of replicas that must acknowledge, in each system, and never raises it.
func TestReplicasCommand(t *testing.T) { // G1
	server := redistest.Start(t)
	env := []string{redisflags.URLVariable + "=" + server.URL()}
	epoch := func(key string) string { text, _ := server.Do("GET", key).(string); return text }
	for _, c := range []struct{ key, begin, set string }{
		{"poll:epoch", "bootstrap --replicas 2", "replicas"},
		{"sovereign:epoch", "bootstrap --system election --replicas 2", "replicas --system election"},
		{"v3:epoch", "intents bootstrap --replicas 2", "intents replicas"},
	} {
		run := func(line string) string {
			t.Helper()
			text, code := ran(t, env, strings.Fields(line)...)
			if code != exitOK {
				t.Fatalf("%s: exit %d: %s", line, code, text)
			}
			return text
		}
		to := func(n string) string {
			first, rest, _ := strings.Cut(c.set, " --")
			if rest != "" {
				rest = " --" + rest
			}
			return first + " " + n + rest
		}
		run(c.begin)
		if before := epoch(c.key); !strings.Contains(before, ":1 ") {
			t.Errorf("%s: the epoch is %q", c.begin, before)
		}
		if said := run(to("4")); !strings.Contains(said, "nothing was changed") {
			t.Errorf("%s raised it: %s", c.set, said)
		}
		if said := run(to("0")); !strings.Contains(said, "and now needs 0") || strings.Contains(epoch(c.key), ":") || epoch(c.key) == "" {
			t.Errorf("%s: %s, the epoch is %q", c.set, said, epoch(c.key))
		}
	}
}
