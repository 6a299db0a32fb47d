package api

import (
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// A list omits and counts the sessions whose keys hold another type. The log names them once a minute. An answer names a key without which
// nothing works.
func TestForeignKeys(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	f := setup(t, Config{Logger: zap.New(core)})
	bad, good := f.start(startBody("1:0:1", "hd")), f.start(startBody("1:0:2", "hd"))
	if err := f.client.Set(t.Context(), "intent:session:"+bad, "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	list := call{method: http.MethodGet, path: "/sessions", auth: "Bearer " + reader}
	for range 3 {
		resp, body := f.do(list)
		sessions := asList(body["sessions"])
		if resp.StatusCode != http.StatusOK || body["keysForeign"] != 1.0 || len(sessions) != 1 ||
			sessions[0].(map[string]any)["sessionId"] != good {
			t.Errorf("%d %v, want the other session", resp.StatusCode, body)
		}
	}
	if lines := logs.FilterMessageSnippet("left out").All(); len(lines) != 1 || !strings.Contains(lines[0].ContextMap()["keys"].([]any)[0].(string), bad) {
		t.Errorf("the log says %v, want one line that names the key", lines)
	}
	for _, c := range []call{{method: http.MethodGet, path: "/sessions/" + bad, auth: "Bearer " + reader},
		{body: `{"type":"stop","sessionId":"` + bad + `"}`}} {
		if resp, body := f.do(c); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d %v, want 404", c.path, resp.StatusCode, body)
		}
	}
	if err := f.client.Set(t.Context(), "intent:waiting", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []call{{body: startBody("1:0:3", "hd")}, {method: http.MethodGet, path: "/readyz", auth: "none"}} {
		resp, body := f.do(c)
		if detail, _ := body["detail"].(string); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(detail, "intent:waiting") {
			t.Errorf("%s: %d %q, want 503 and the key", c.path, resp.StatusCode, detail)
		}
	}
}

// If the lease prefix has a hash tag, as on a cluster, the API refuses a service whose lease would have the name of a fence.
func TestServiceWithTheNameOfAFence(t *testing.T) { // I4
	for _, leased := range []bool{true, false} {
		f := setup(t, Config{})
		st, err := store.New(f.client, store.Options{KeyPrefix: "{x}:intent:", Leases: lease.Config{LeasePrefix: "{x}:lease:"}})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		if f.handler, err = NewHandler(st, Config{Tokens: []Token{NewToken("w", writer, intent.ScopeWrite)}, LeaseFirst: leased}); err != nil {
			t.Fatal(err)
		}
		before := f.dump()
		resp, body := f.do(call{body: startBody("a:fence", "hd")})
		if detail, _ := body["detail"].(string); resp.StatusCode != http.StatusBadRequest || !strings.Contains(detail, "resource") || f.dump() != before {
			t.Errorf("leased first %v: %s %v, want 400 and nothing changed", leased, resp.Status, body)
		}
	}
}

// If the lease on a service holds anything but a session's ID, the service is in use, and the conflict names no session.
func TestConflictNamesSessionsOnly(t *testing.T) { // I4
	f := setup(t, Config{LeaseFirst: true})
	for _, holder := range []string{"session:" + strings.Repeat("x", 1<<20), "session:urn:uuid:00000000-0000-0000-0000-000000000000", "session:", "worker-7"} {
		if err := f.client.Set(t.Context(), "intent:lease:resource:a", holder, 0).Err(); err != nil {
			t.Fatal(err)
		}
		resp, body := f.do(call{body: startBody("a", "hd")})
		if _, named := body["sessionId"]; named || resp.StatusCode != http.StatusConflict {
			t.Errorf("%.60s: %s, a session is named: %v", holder, resp.Status, named)
		}
	}
}
