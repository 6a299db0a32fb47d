package node

import (
	"io"
	"strings"
	"testing"
)

func TestTrustedProxies(t *testing.T) {
	for _, tt := range []struct {
		text string
		want int // networks; -1: refused
	}{
		{"", 0}, {"10.0.0.1/32", 1}, {"10.0.0.1/32, ::1/128", 2}, {"10.0.0.1", -1}, {"10.0.0.0/8,", -1}, {"lan", -1},
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
