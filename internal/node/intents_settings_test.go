package node

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// hex64 has the form of a SHA-256.
const hex64 = "abababababababababababababababababababababababababababababababab"

func TestTrustedProxies(t *testing.T) {
	for _, tt := range []struct {
		text string
		want int // networks; -1: refused
	}{
		{"", 0}, {"10.0.0.1/32", 1}, {"10.0.0.1/32, ::1/128", 2}, {"10.0.0.1", -1}, {"10.0.0.0/8,", -1}, {"lan", -1},
		{"10.0.0.1/32,0.0.0.0/0", -1},
	} {
		env := map[string]string{
			"LEASESTORM_REDIS_URL": "redis://127.0.0.1:1", "LEASESTORM_TOKENS": "a sha256:" + strings.Repeat("ab", 32) + " v3:read",
			"LEASESTORM_TRUSTED_PROXIES": tt.text,
		}
		s, err := parseIntents(nil, func(name string) string { return env[name] }, io.Discard, true)
		switch {
		case tt.want < 0 && (err == nil || !strings.Contains(err.Error(), "LEASESTORM_TRUSTED_PROXIES")):
			t.Errorf("%q: %v", tt.text, err)
		case tt.want >= 0 && (err != nil || len(s.proxies) != tt.want):
			t.Errorf("%q: %v, %v", tt.text, s.proxies, err)
		}
	}
}

// An error names the variable and the flag of a wrong setting, before the node connects to Redis.
func TestWrongSettingsOfIntentsAreNamed(t *testing.T) {
	for _, tt := range []struct{ flag, want string }{
		{"--ttl=-3s", "--ttl"}, {"--ttl=48h", "--ttl"}, {"--renew=-1s", "--renew"}, {"--op-timeout=-1s", "--op-timeout"},
		{"--tuners=ä", "--tuners"}, {"--tuners=a/b", "--tuners"}, {"--role=nobody", "--role"}, {"--log=loud", "--log"},
	} {
		env := map[string]string{"LEASESTORM_REDIS_URL": "redis://127.0.0.1:1", "LEASESTORM_TOKENS": "a sha256:" + hex64 + " v3:read"}
		_, err := parseIntents([]string{tt.flag}, func(name string) string { return env[name] }, io.Discard, true)
		if err == nil || !strings.Contains(err.Error(), "("+tt.want+")") {
			t.Errorf("%s: %v", tt.flag, err)
		}
	}
	env := map[string]string{"LEASESTORM_REDIS_URL": "redis://127.0.0.1:1", "LEASESTORM_TOKENS": "a sha256:" + hex64 + " v3:read"}
	if _, err := parseIntents([]string{"--role=api", "--single-writer"}, func(name string) string { return env[name] }, io.Discard,
		true); err == nil || !strings.Contains(err.Error(), "--single-writer") {
		t.Errorf("an API that is to be the single worker: %v", err)
	}
}

// The node warns of an expired token when it starts.
func TestExpiredTokenIsTold(t *testing.T) {
	env := map[string]string{
		"LEASESTORM_REDIS_URL": "redis://127.0.0.1:1",
		"LEASESTORM_TOKENS":    "old sha256:" + hex64 + " v3:read 2001-01-01T00:00:00Z; new sha256:" + strings.Repeat("cd", 32) + " v3:read 2999-01-01T00:00:00Z",
	}
	s, err := parseIntents(nil, func(name string) string { return env[name] }, io.Discard, true)
	if err != nil || len(s.warnings) != 1 || !strings.Contains(s.warnings[0], `"old"`) {
		t.Errorf("%q, %v; want a warning of the token that has expired", s.warnings, err)
	}
}

// Every command prints its help and rejects unknown arguments without a Redis.
func TestCommandsOfIntentsExplainThemselves(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		code int
		want string // on standard error
	}{
		{"intents --help", exitOK, ""}, {"intents dead-letters --help", exitOK, ""}, {"intents dead-letters drop -h", exitOK, ""},
		{"intents", exitWrong, "node: intents: the commands are"}, {"intents nonsense", exitWrong, "node: intents nonsense: the commands are"},
		{"--system nope", exitWrong, "intents"},
	} {
		cmd := exec.Command(exe, strings.Fields(tt.args)...)
		cmd.Env = append(os.Environ(), asNode+"=1", "LEASESTORM_REDIS_URL=")
		var log strings.Builder
		cmd.Stderr = &log
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(log.String(), tt.want) {
			t.Errorf("%s: exit %d, %q; want %d, %q", tt.args, code, log.String(), tt.code, tt.want)
		}
	}
}

// Limits are on by default, off at 0, and never negative.
func TestLimitsOfIntents(t *testing.T) {
	env := map[string]string{"LEASESTORM_REDIS_URL": "redis://127.0.0.1:1", "LEASESTORM_TOKENS": "a sha256:" + hex64 + " v3:read"}
	getenv := func(name string) string { return env[name] }
	s, err := parseIntents(nil, getenv, io.Discard, true)
	if err != nil || min(s.conns, s.quotas.StartRate, s.quotas.Backlog) < 1 {
		t.Errorf("by default: %+v, %v", s, err)
	}
	env["LEASESTORM_BACKLOG"], env["LEASESTORM_CONNS"] = "0", "7"
	if s, err = parseIntents([]string{"--start-rate=0"}, getenv, io.Discard, true); err != nil || s.quotas.StartRate != -1 ||
		s.quotas.Backlog != -1 || s.conns != 7 {
		t.Errorf("as told: %+v, %v", s, err)
	}
	for _, flag := range []string{"--conns", "--start-rate", "--backlog"} {
		if _, err := parseIntents([]string{flag + "=-1"}, getenv, io.Discard, true); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s=-1: %v", flag, err)
		}
	}
	env["LEASESTORM_CONNS"] = "many"
	if _, err := parseIntents(nil, getenv, io.Discard, true); err == nil || !strings.Contains(err.Error(), "LEASESTORM_CONNS") {
		t.Errorf("many: %v", err)
	}
}

// The node warns once, when it starts, of API traffic that others can read.
func TestUnguardedWaysAreTold(t *testing.T) {
	for _, tt := range []struct {
		redis, args string
		want        int
	}{
		{"redis://127.0.0.1:1", "", 0}, {"redis://127.0.0.1:1", "--api=localhost:80", 0}, {"redis://127.0.0.1:1", "--api=[::1]:80", 0},
		{"redis://127.0.0.1:1", "--api=:80", 1}, {"redis://127.0.0.1:1", "--api=192.168.1.1:80", 1},
		{"redis://127.0.0.1:1", "--api=:80 --role=worker", 0}, {"rediss://127.0.0.1:1", "--api=0.0.0.0:80", 1},
	} {
		env := map[string]string{"LEASESTORM_REDIS_URL": tt.redis, "LEASESTORM_TOKENS": "a sha256:" + hex64 + " v3:read"}
		s, err := parseIntents(strings.Fields(tt.args), func(name string) string { return env[name] }, io.Discard, true)
		if err != nil || len(s.warnings) != tt.want {
			t.Errorf("%s %s: %q, %v; want %d warnings", tt.redis, tt.args, s.warnings, err, tt.want)
		}
	}
}
