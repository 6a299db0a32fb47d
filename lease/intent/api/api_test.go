package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	writer = "writer-secret"
	reader = "reader-secret"
	stale  = "stale-secret"
)

type fixture struct {
	*testing.T
	server  *redistest.Server
	client  *redis.Client
	store   *store.Store
	handler http.Handler
	counts  counter
	seen    map[string]bool // "method path status", for the comparison with the OpenAPI document
}

// counter is an Observer.
type counter map[string]int

func (c counter) Intent(outcome string, leased bool) { c[fmt.Sprint(outcome, " ", leased)]++ }
func (c counter) Replay()                            { c["replay"]++ }
func (c counter) WorkerStart(string)                 {}

func setup(t *testing.T, cfg Config) *fixture {
	f := &fixture{T: t, server: redistest.Start(t), counts: counter{}, seen: map[string]bool{}}
	f.client = f.server.Client()
	var err error
	f.store, err = store.New(f.client, store.Options{Leases: lease.Config{TTL: 2 * time.Second, OpTimeout: time.Second}, OpTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.store.Close() })
	if err := admin.Bootstrap(t.Context(), f.client, f.store.Options()); err != nil {
		t.Fatal(err)
	}
	old := NewToken("old", stale, intent.ScopeWrite)
	old.Expires = time.Now().Add(-time.Second)
	cfg.Tokens = []Token{NewToken("w", writer, intent.ScopeWrite), NewToken("r", reader, intent.ScopeRead), old}
	cfg.Observer = f.counts
	if f.handler, err = NewHandler(f.store, cfg); err != nil {
		t.Fatal(err)
	}
	return f
}

// call is a request to the handler. A zero field stands for a valid value.
type call struct {
	method, path, body, auth, kind string
	remote                         string
	header                         http.Header
}

// reply is a response whose body was read.
type reply struct {
	StatusCode int
	Status     string
	Header     http.Header
}

func (f *fixture) do(c call) (*reply, map[string]any) {
	f.Helper()
	def := func(v *string, d string) {
		if *v == "" {
			*v = d
		}
	}
	def(&c.method, http.MethodPost)
	def(&c.path, "/intents")
	def(&c.auth, "Bearer "+writer)
	def(&c.kind, "application/json")
	def(&c.remote, "127.0.0.1:5000")
	r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
	for name, values := range c.header {
		r.Header[name] = values
	}
	if c.auth != "none" {
		r.Header.Set("Authorization", c.auth)
	}
	if c.kind != "none" {
		r.Header.Set("Content-Type", c.kind)
	}
	r.RemoteAddr = c.remote
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	f.handler.(*Handler).Flush(f.Context())
	resp := w.Result()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		f.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil {
		f.Fatalf("%s %s: %s is no JSON", c.method, c.path, text)
	}
	f.documented(c, resp, body)
	return &reply{resp.StatusCode, resp.Status, resp.Header}, body
}

// dump is the whole keyspace.
func (f *fixture) dump() string {
	f.Helper()
	keys, err := f.client.Keys(f.Context(), "*").Result()
	if err != nil {
		f.Fatal(err)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, k := range keys {
		v, err := f.client.Dump(f.Context(), k).Result()
		if err != nil {
			f.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %q\n", k, v)
	}
	return b.String()
}

func startBody(ref, profile string) string {
	return fmt.Sprintf(`{"type":"start","resource":%q,"profile":%q}`, ref, profile)
}

func (f *fixture) start(body string) string {
	f.Helper()
	resp, got := f.do(call{body: body})
	id, _ := got["sessionId"].(string)
	if resp.StatusCode != http.StatusAccepted || resp.Header.Get("Location") != "/sessions/"+id {
		f.Fatalf("%s: %s %v", body, resp.Status, got)
	}
	return id
}

var rejects = []struct {
	name   string
	status int
	call   call
}{
	{"empty", 400, call{body: " "}},
	{"not JSON", 400, call{body: `{"type"`}},
	{"not JSON inside", 400, call{body: `{"type":"start",}`}},
	{"an array", 400, call{body: `[]`}},
	{"a string", 400, call{body: `"start"`}},
	{"null", 400, call{body: `null`}},
	{"two objects", 400, call{body: startBody("a", "p") + "{}"}},
	{"deep", 400, call{body: strings.Repeat(`{"type":`, 900)}},
	{"deep array", 400, call{body: `{"type":` + strings.Repeat(`[`, 4000)}},
	{"member twice", 400, call{body: `{"type":"start","resource":"a","resource":"b"}`}},
	{"member twice by escapes", 400, call{body: `{"type":"start","resource":"a","service\u0052ef":"b"}`}},
	{"member unknown", 400, call{body: `{"type":"start","resource":"a","admin":true}`}},
	{"member in other letters", 400, call{body: `{"type":"start","Resource":"a"}`}},
	{"member of the other type", 400, call{body: `{"type":"start","resource":"a","sessionId":"0190a8c2-8f5e-7c2a-9d7e-3b1f6a2c4d5e"}`}},
	{"type missing", 400, call{body: `{"resource":"a"}`}},
	{"type unknown", 400, call{body: `{"type":"stream.pause","resource":"a"}`}},
	{"type a number", 400, call{body: `{"type":1,"resource":"a"}`}},
	{"type null", 400, call{body: `{"type":null,"resource":"a"}`}},
	{"resource missing", 400, call{body: `{"type":"start"}`}},
	{"resource empty", 400, call{body: startBody("", "p")}},
	{"resource only separators", 400, call{body: startBody(":::", "p")}},
	{"resource an object", 400, call{body: `{"type":"start","resource":{}}`}},
	{"resource with a control character", 400, call{body: `{"type":"start","resource":"a\u0000b"}`}},
	{"resource with a newline", 400, call{body: `{"type":"start","resource":"a\nb"}`}},
	{"resource with a lone surrogate", 400, call{body: `{"type":"start","resource":"\ud800"}`}},
	{"resource of 10 kB", 413, call{body: startBody(strings.Repeat("a", 10<<10), "p")}},
	{"resource of 300 bytes", 400, call{body: startBody(strings.Repeat("a", 300), "p")}},
	{"profile with a separator", 400, call{body: startBody("a", "b:c")}},
	{"profile empty", 400, call{body: startBody("a", "")}},
	{"at a string", 400, call{body: `{"type":"start","resource":"a","at":"1"}`}},
	{"at zero", 400, call{body: `{"type":"start","resource":"a","at":0}`}},
	{"at negative", 400, call{body: `{"type":"start","resource":"a","at":-5000}`}},
	{"at a fraction", 400, call{body: `{"type":"start","resource":"a","at":1000.5}`}},
	{"at huge", 400, call{body: `{"type":"start","resource":"a","at":1e300}`}},
	{"invalid UTF-8", 400, call{body: "{\"type\":\"start\",\"resource\":\"\xff\"}"}},
	{"stop without session", 400, call{body: `{"type":"stop"}`}},
	{"stop of no UUID", 400, call{body: `{"type":"stop","sessionId":"x"}`}},
	{"stop in another form of UUID", 400, call{body: `{"type":"stop","sessionId":"{0190a8c2-8f5e-7c2a-9d7e-3b1f6a2c4d5e}"}`}},
	{"stop of an unknown session", 404, call{body: `{"type":"stop","sessionId":"0190a8c2-8f5e-7c2a-9d7e-3b1f6a2c4d5e"}`}},
	{"huge", 413, call{body: strings.Repeat(" ", 1<<20)}},
	{"no content type", 415, call{body: startBody("a", "p"), kind: "none"}},
	{"a form", 415, call{body: startBody("a", "p"), kind: "application/x-www-form-urlencoded"}},
	{"another character set", 415, call{body: startBody("a", "p"), kind: "application/json; charset=latin1"}},
	{"two content types", 415, call{body: startBody("a", "p"), kind: "none", header: http.Header{"Content-Type": {"application/json", "text/plain"}}}},
	{"encoded", 415, call{body: startBody("a", "p"), header: http.Header{"Content-Encoding": {"gzip"}}}},
	{"no token", 401, call{body: startBody("a", "p"), auth: "none"}},
	{"no such token", 401, call{body: startBody("a", "p"), auth: "Bearer guess"}},
	{"a token's beginning", 401, call{body: startBody("a", "p"), auth: "Bearer " + writer[:5]}},
	{"expired token", 401, call{body: startBody("a", "p"), auth: "Bearer " + stale}},
	{"empty token", 401, call{body: startBody("a", "p"), auth: "Bearer "}},
	{"token with a space", 401, call{body: startBody("a", "p"), auth: "Bearer " + writer + " x"}},
	{"huge token", 401, call{body: startBody("a", "p"), auth: "Bearer " + strings.Repeat("a", 5000)}},
	{"basic", 401, call{body: startBody("a", "p"), auth: "Basic " + writer}},
	{"wrong scope", 403, call{body: startBody("a", "p"), auth: "Bearer " + reader}},
	{"from outside", 403, call{body: startBody("a", "p"), remote: "203.0.113.9:1"}},
	{"forged address", 403, call{body: startBody("a", "p"), remote: "203.0.113.9:1", header: http.Header{"X-Forwarded-For": {"127.0.0.1"}}}},
	{"no address", 403, call{body: startBody("a", "p"), remote: "@"}},
	{"method", 405, call{method: http.MethodPut, body: startBody("a", "p")}},
	{"delete", 405, call{method: http.MethodDelete, path: "/sessions/0190a8c2-8f5e-7c2a-9d7e-3b1f6a2c4d5e"}},
	{"post to the list", 405, call{path: "/sessions"}},
	{"post to the document", 405, call{path: "/openapi.json"}},
	{"document from outside", 403, call{method: http.MethodGet, path: "/openapi.json", remote: "203.0.113.9:1"}},
	{"no such path", 404, call{path: "/other"}},
	{"session without token", 401, call{method: http.MethodGet, path: "/sessions/x", auth: "none"}},
	{"session with the wrong scope", 403, call{method: http.MethodGet, path: "/sessions/x"}},
	{"session of no UUID", 404, call{method: http.MethodGet, path: "/sessions/x", auth: "Bearer " + reader}},
	{"list without token", 401, call{method: http.MethodGet, path: "/sessions", auth: "none"}},
	{"list with the wrong scope", 403, call{method: http.MethodGet, path: "/sessions"}},
	{"page of nothing", 400, call{method: http.MethodGet, path: "/sessions?limit=0", auth: "Bearer " + reader}},
	{"page too large", 400, call{method: http.MethodGet, path: "/sessions?limit=1000", auth: "Bearer " + reader}},
	{"cursor", 400, call{method: http.MethodGet, path: "/sessions?cursor=%2B", auth: "Bearer " + reader}},
	{"query", 400, call{method: http.MethodGet, path: "/sessions?sort=x", auth: "Bearer " + reader}},
}

// A refused request changes nothing in Redis, in either phase.
func TestRejectsChangeNothing(t *testing.T) {
	for _, leased := range []bool{false, true} {
		f := setup(t, Config{LeaseFirst: leased})
		f.start(startBody("running", "p"))
		before := f.dump()
		for _, tt := range rejects {
			resp, body := f.do(tt.call)
			if resp.StatusCode != tt.status || resp.Header.Get("Content-Type") != "application/problem+json" ||
				body["status"] != float64(tt.status) || body["detail"] == "" {
				t.Errorf("%s: %s %v, want %d", tt.name, resp.Status, body, tt.status)
			}
			if tt.status == http.StatusUnauthorized && !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s: no challenge", tt.name)
			}
			if tt.status == http.StatusMethodNotAllowed && resp.Header.Get("Allow") == "" {
				t.Errorf("%s: no Allow", tt.name)
			}
			if after := f.dump(); after != before {
				t.Fatalf("%s changed Redis:\n%s\nbefore:\n%s", tt.name, after, before)
			}
		}
	}
}

// Phase 2 (ADR 5.1): equal starts share one session. Another profile gives another session.
func TestReplay(t *testing.T) {
	f := setup(t, Config{})
	first := f.start(startBody("1:0:1:", "hd"))
	resp, body := f.do(call{body: `{"profile":"hd", "resource":"1:0:1", "type":"start"}`})
	if resp.StatusCode != http.StatusAccepted || body["sessionId"] != first || body["replayed"] != true {
		t.Errorf("%s %v", resp.Status, body)
	}
	if other := f.start(startBody("1:0:1", "sd")); other == first {
		t.Error("two profiles are one session")
	}
	if f.counts["accepted false"] != 2 || f.counts["replayed false"] != 1 || f.counts["replay"] != 1 {
		t.Errorf("%v", f.counts)
	}
}

// Phase 1 (ADR 5.1): a start of a service in use is a conflict, even with the same key, and changes nothing.
func TestConflict(t *testing.T) {
	f := setup(t, Config{LeaseFirst: true})
	first := f.start(startBody("a", "hd"))
	before := f.dump()
	for _, profile := range []string{"hd", "sd"} {
		resp, body := f.do(call{body: startBody("a", profile)})
		if resp.StatusCode != http.StatusConflict || body["sessionId"] != first {
			t.Errorf("%s: %s %v", profile, resp.Status, body)
		}
	}
	if after := f.dump(); after != before {
		t.Errorf("a conflict changed Redis:\n%s\nbefore:\n%s", after, before)
	}
	if f.counts["conflict true"] != 2 {
		t.Errorf("%v", f.counts)
	}
}

func TestSessions(t *testing.T) {
	f := setup(t, Config{})
	id := f.start(`{"type":"start","resource":"a","at":1700000000000}`)
	f.start(startBody("b", "p"))
	get := call{method: http.MethodGet, path: "/sessions/" + id, auth: "Bearer " + reader}
	resp, body := f.do(get)
	if resp.StatusCode != http.StatusOK || body["state"] != "NEW" || body["at"] != 1.7e12 || body["profile"] != "default" {
		t.Errorf("%s %v", resp.Status, body)
	}
	get.path = "/sessions?limit=1"
	_, page := f.do(get)
	next, _ := page["next"].(string)
	get.path = "/sessions?limit=1&cursor=" + next
	_, last := f.do(get)
	sessions, _ := last["sessions"].([]any)
	if len(sessions) != 1 || sessions[0].(map[string]any)["sessionId"] != id || last["next"] != nil {
		t.Errorf("%v, then %v", page, last)
	}
	resp, body = f.do(call{body: fmt.Sprintf(`{"type":"stop","sessionId":%q}`, id)})
	if resp.StatusCode != http.StatusAccepted || body["ended"] != nil {
		t.Errorf("%s %v", resp.Status, body)
	}
	get.path = "/sessions/" + id
	if _, body := f.do(get); body["stopping"] != true {
		t.Errorf("%v", body)
	}
}

func TestRedisIsAway(t *testing.T) {
	f := setup(t, Config{})
	ready := call{method: http.MethodGet, path: "/readyz", auth: "none"}
	if resp, _ := f.do(ready); resp.StatusCode != http.StatusOK {
		t.Errorf("ready: %s", resp.Status)
	}
	f.server.Kill()
	for _, c := range []call{
		{body: startBody("a", "p")}, ready,
		{method: http.MethodGet, path: "/sessions", auth: "Bearer " + reader},
		{method: http.MethodGet, path: "/sessions/0190a8c2-8f5e-7c2a-9d7e-3b1f6a2c4d5e", auth: "Bearer " + reader},
	} {
		resp, body := f.do(c)
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" ||
			strings.Contains(fmt.Sprint(body), f.server.Addr()) {
			t.Errorf("%s: %s %v", c.path, resp.Status, body)
		}
	}
	if resp, _ := f.do(call{method: http.MethodGet, path: "/healthz", auth: "none"}); resp.StatusCode != http.StatusOK {
		t.Errorf("health: %s", resp.Status)
	}
}

func TestClientAddr(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("::1/128")}
	for _, tt := range []struct {
		peer  string
		chain []string
		want  string // "": refused
	}{
		{"192.168.1.5:1", nil, "192.168.1.5"},
		{"192.168.1.5:1", []string{"127.0.0.1"}, ""}, // an untrusted proxy
		{"[::ffff:192.168.1.5]:1", nil, "192.168.1.5"},
		{"[fe80::1%eth0]:1", nil, "fe80::1"},
		{"10.0.0.1:1", nil, "10.0.0.1"},
		{"10.0.0.1:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"127.0.0.1, 203.0.113.9"}, "203.0.113.9"}, // the left address is forged
		{"10.0.0.1:1", []string{"127.0.0.1", "203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"203.0.113.9, 10.0.0.7"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"192.168.1.5, 203.0.113.9 , 10.0.0.7,10.0.0.8"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"10.0.0.9, 10.0.0.7"}, "10.0.0.9"},
		{"10.0.0.1:1", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"[2001:db8::1]:80"}, "2001:db8::1"},
		{"[::1]:1", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"127.0.0.1, unknown"}, ""},
		{"10.0.0.1:1", []string{"127.0.0.1,"}, ""},
		{"10.0.0.1:1", []string{"bogus, 203.0.113.9"}, "203.0.113.9"}, // ignored
		{"@", nil, ""},
	} {
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{"X-Forwarded-For": tt.chain}}
		addr, err := clientAddr(r, trusted)
		if tt.want == "" && err == nil || tt.want != "" && (err != nil || addr.String() != tt.want) {
			t.Errorf("%s %q: %v %v, want %q", tt.peer, tt.chain, addr, err, tt.want)
		}
	}
}

func TestParseTokens(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	good := "# people\n\nann sha256:" + sum + " write,read\nbob sha256:" + strings.Repeat("cd", 32) + " read 2030-01-02T03:04:05Z\n"
	tokens, err := ParseTokens(strings.NewReader(good), intent.Names{})
	if err != nil || len(tokens) != 2 || tokens[0].SHA256[0] != 0xab || tokens[1].Expires.Year() != 2030 {
		t.Errorf("%+v %v", tokens, err)
	}
	for _, bad := range []string{
		"ann", "ann secret read", "PASSWORD=secret of another", "ann sha256:ab read", "ann " + sum + " read", "ann sha256:" + sum + " v3:write",
		"ann sha256:" + sum + " read\nbob sha256:" + strings.ToUpper(sum) + " write", "ann sha256:" + sum + " read tomorrow", "ann sha256:" + sum + " read a b", "ann sha256:" + strings.Repeat("00", 32) + " read",
	} {
		if _, err := ParseTokens(strings.NewReader(bad), intent.Names{}); err == nil || !strings.Contains(err.Error(), fmt.Sprint("line ", 1+strings.Count(bad, "\n"))) {
			t.Errorf("%q: %v", bad, err)
		} else if strings.Contains(err.Error(), "secret") { // of a file that is no token file
			t.Errorf("%q is shown: %v", bad, err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	token := []Token{NewToken("w", "s", intent.ScopeWrite)}
	for _, cfg := range []Config{
		{}, {Tokens: []Token{{}}}, {Tokens: []Token{NewToken("w", "s", "root")}}, {Tokens: token, KeyTTL: 1},
		{Tokens: []Token{token[0], token[0]}}, {Tokens: token, BodyMax: -1}, {Tokens: token, BodyTimeout: 1},
		{Tokens: token, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("::/0")}},
		{Tokens: token, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/7")}},
		{Tokens: token, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.1/128")}},
		{Tokens: token, TrustedProxies: []netip.Prefix{{}}},
	} {
		if _, err := NewHandler(nil, cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}
