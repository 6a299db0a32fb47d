package api

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// A request through an untrusted proxy is refused, and the log says once what to do.
func TestUnnamedProxyIsRefused(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	f := setup(t, Config{Logger: zap.New(core), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")}})
	for _, tt := range []struct {
		remote string
		header http.Header
	}{
		{"192.168.1.5:1", http.Header{"X-Forwarded-For": {"192.168.1.7"}}},
		{"127.0.0.1:1", http.Header{"Forwarded": {"for=203.0.113.9"}}},
		{"127.0.0.1:1", http.Header{"X-Real-Ip": {"203.0.113.9"}}},
		{"127.0.0.1:1", http.Header{"Via": {"1.1 p"}}},
		{"10.0.0.1:1", http.Header{"X-Real-Ip": {"203.0.113.9"}, "X-Forwarded-For": {""}}}, // trusted, but does not name the sender
	} {
		resp, body := f.do(call{body: startBody("a", "p"), remote: tt.remote, header: tt.header})
		if resp.StatusCode != http.StatusForbidden || body["type"] != problemPrefix+"address" {
			t.Errorf("%s %v: %s %v", tt.remote, tt.header, resp.Status, body)
		}
	}
	lines := logs.FilterMessageSnippet("proxy that is not trusted").All()
	if len(lines) != 1 || !strings.Contains(lines[0].Message, "--trusted-proxies") || lines[0].ContextMap()["proxy"] != "192.168.1.5" {
		t.Errorf("the log says %v, want one line with the way out", lines)
	}
	named := http.Header{"X-Forwarded-For": {"192.168.1.7"}, "X-Real-Ip": {"192.168.1.7"}}
	if resp, body := f.do(call{body: startBody("a", "p"), remote: "10.0.0.1:1", header: named}); resp.StatusCode != http.StatusAccepted {
		t.Errorf("through a named one: %s %v", resp.Status, body)
	}
}
