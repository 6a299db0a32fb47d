package node

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisflags"
	"github.com/leasestorm/leasestorm/lease"
)

// settingVariables may have any value in fuzz tests: none of them names a file.
var settingVariables = []string{
	"LEASESTORM_TTL_MS", "LEASESTORM_RENEW_MS", "LEASESTORM_HEARTBEAT_MS", "LEASESTORM_POLL_MS", "LEASESTORM_POLL_TIMEOUT_MS",
	"LEASESTORM_START_DELAY_MS", "LEASESTORM_LONG_POLLS", "LEASESTORM_LOG", "LEASESTORM_RENEW_LOG", "LEASESTORM_PAUSE", "LEASESTORM_SYSTEM",
	"LEASESTORM_OP_TIMEOUT_MS", "LEASESTORM_STUCK_MS", "LEASESTORM_ELECTION_MS",
}

// FuzzSettings gives one variable any value. The setting must be within its bounds, or the error must name the variable.
func FuzzSettings(f *testing.F) {
	for i, value := range []string{"3000", "-1", "1s", "99999999999999999999", "check-send", "true", "info", "election", "\x00", "0"} {
		f.Add(i, value)
		f.Add(i+4, value)
	}
	f.Fuzz(func(t *testing.T, i int, value string) {
		name := settingVariables[uint(i)%uint(len(settingVariables))]
		s, err := parse(nil, func(k string) string {
			return map[string]string{name: value, redisflags.URLVariable: "redis://h:1"}[k]
		}, io.Discard)
		if err != nil {
			if !strings.Contains(err.Error(), name) {
				t.Fatalf("%s=%q: %v", name, value, err)
			}
			return
		}
		for _, d := range []time.Duration{s.leases.TTL, s.leases.RenewInterval, s.polls.Interval, s.polls.Timeout, s.leases.OpTimeout, s.polls.Stuck, s.election} {
			if d < 0 || d > 24*time.Hour {
				t.Fatalf("%s=%q: %+v", name, value, s)
			}
		}
	})
}

var intentVariables = []string{
	"LEASESTORM_ROLE", "LEASESTORM_CONNS", "LEASESTORM_START_RATE", "LEASESTORM_BACKLOG", "LEASESTORM_TUNERS",
	"LEASESTORM_TTL_MS", "LEASESTORM_TRUSTED_PROXIES", "LEASESTORM_API_LEASES", "LEASESTORM_TOKENS",
}

// FuzzIntentSettings does the same for intents. For a token, the error must name the line, because its text is secret.
func FuzzIntentSettings(f *testing.F) {
	token := "ann sha256:" + strings.Repeat("ab", 32) + " v3:read"
	for i, value := range []string{
		"worker", "0", "-1", "99999999999999999999", "10001", "a,b", "3000", "10.0.0.1/32,::1/128", "maybe", token + "; " + token, token,
	} {
		f.Add(i, value)
		f.Add(i+5, value)
	}
	f.Fuzz(func(t *testing.T, i int, value string) {
		name := intentVariables[uint(i)%uint(len(intentVariables))]
		env := map[string]string{"LEASESTORM_TOKENS": token, redisflags.URLVariable: "redis://h:1"}
		env[name] = value
		s, err := parseIntents(nil, func(k string) string { return env[k] }, io.Discard, true)
		if err != nil {
			if !strings.Contains(err.Error(), name) && (name != "LEASESTORM_TOKENS" || !strings.Contains(err.Error(), "token")) {
				t.Fatalf("%s=%q: %v", name, value, err)
			}
			return
		}
		if s.leases.TTL < lease.TTLMin || s.leases.TTL > lease.TTLMax || s.conns < 0 || s.role != roleWorker && len(s.tokens) == 0 ||
			len(s.slots) == 0 || len(s.slots) > max(tunersMax, len(value)) {
			t.Fatalf("%s=%q: %+v", name, value, s)
		}
		for _, slot := range s.slots {
			if slot == "" || strings.ContainsFunc(slot, notInSlot) {
				t.Fatalf("%s=%q: the slot %q", name, value, slot)
			}
		}
		if sorted := slices.Compact(slices.Sorted(slices.Values(s.slots))); len(sorted) != len(s.slots) {
			t.Fatalf("%s=%q: a slot twice in %q", name, value, s.slots)
		}
	})
}
