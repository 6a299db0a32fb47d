package api

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// Who comes through a proxy that nobody named is refused, whatever the header is called, and the log says once what to do.
func TestUnnamedProxyIsRefused(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	f := setup(t, Config{Logger: zap.New(core), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")}})
	before := f.dump()
	for _, header := range []http.Header{
		{"X-Forwarded-For": {"203.0.113.9"}}, {"X-Forwarded-For": {"192.168.1.7"}}, {"X-Forwarded-For": {""}},
		{"Forwarded": {"for=203.0.113.9"}}, {"X-Real-Ip": {"203.0.113.9"}}, {"X_real_ip": {"203.0.113.9"}},
		{"X_forwarded_for": {"203.0.113.9"}}, {"X-Myforwarded-For": {"203.0.113.9"}},
		{"Via": {"1.1 p"}}, {"True-Client-Ip": {"203.0.113.9"}}, {"Cf-Connecting-Ip": {"203.0.113.9"}}, {"X-Client-Ip": {"203.0.113.9"}},
		{"X-Forwarded-Host": {"h"}}, {"X-Forwarded-Proto": {"https"}}, {"X-Forwarded-Prefix": {"/p"}}, {"Client-Ip": {"203.0.113.9"}},
		{"Fly-Client-Ip": {"203.0.113.9"}}, {"X-Azure-Clientip": {"203.0.113.9"}}, {"X-Azure-Socketip": {"203.0.113.9"}},
		{"Cf-Connecting-Ipv6": {"2001:db8::9"}}, {"Cf-Pseudo-Ipv4": {"240.0.0.9"}}, {"X-Original-Forwarded-Host": {"h"}},
		{"Cdn-Loop": {"cdn"}}, {"X-Envoy-External-Address": {"203.0.113.9"}}, {"Cloudfront-Viewer-Address": {"203.0.113.9:1"}},
	} {
		for _, remote := range []string{"192.168.1.5:1", "127.0.0.1:1"} {
			resp, body := f.do(call{body: startBody("a", "p"), remote: remote, header: header})
			if resp.StatusCode != http.StatusForbidden || body["type"] != problemPrefix+"address" {
				t.Errorf("%s %v: %s %v", remote, header, resp.Status, body)
			}
		}
	}
	// A named one that says it in a header that is not read does not speak for itself.
	for _, header := range []http.Header{{"X-Real-Ip": {"203.0.113.9"}}, {"X-Real-Ip": {"203.0.113.9"}, "X-Forwarded-For": {""}}} {
		if resp, body := f.do(call{body: startBody("a", "p"), remote: "10.0.0.1:1", header: header}); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%v: %s %v", header, resp.Status, body)
		}
	}
	if after := f.dump(); after != before {
		t.Errorf("Redis has changed:\n%s", after)
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

// An IPv4 network that is written as IPv6 is compared as what it is, and none is taken that trusts strangers.
func TestParseProxies(t *testing.T) {
	nets, err := ParseProxies("::ffff:127.0.0.1/128, 10.0.0.0/8,fc00::/7")
	if err != nil || len(nets) != 3 || nets[0] != netip.MustParsePrefix("127.0.0.1/32") {
		t.Errorf("%v %v", nets, err)
	}
	r := &http.Request{RemoteAddr: "127.0.0.1:1", Header: http.Header{"X-Forwarded-For": {"203.0.113.9"}}}
	if addr, err := clientAddr(r, nets); err != nil || addr.String() != "203.0.113.9" {
		t.Errorf("through the mapped one: %v %v", addr, err)
	}
	for _, bad := range []string{"0.0.0.0/0", "::/0", "::ffff:0:0/96", "::ffff:0:0/95", "0.0.0.0/1", "fc00::/6", "10.0.0.0/7"} {
		if _, err := ParseProxies(bad); err == nil || !strings.Contains(err.Error(), "anywhere") {
			t.Errorf("%s: %v, want it refused", bad, err)
		}
	}
}
