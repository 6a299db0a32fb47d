package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// If a client sends its body slowly or never, it gets an error, and the API closes the connection.
func TestSlowSender(t *testing.T) {
	f := setup(t, Config{BodyTimeout: 50 * time.Millisecond})
	srv := httptest.NewServer(f.handler)
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /intents HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: 100\r\n\r\n{", writer)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout || !resp.Close {
		t.Errorf("%s, close %v", resp.Status, resp.Close)
	}
	f.seen["POST /intents 408"] = true
}

// document is the compared part of the OpenAPI document.
var document = func() (d struct {
	Paths      map[string]map[string]struct{ Responses map[string]json.RawMessage }
	Components struct {
		Responses map[string]json.RawMessage
		Schemas   map[string]struct {
			Required   []string
			Properties map[string]struct {
				Enum []any
				Type string
			}
		}
	}
}) {
	text, err := os.ReadFile("openapi.json")
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		panic(err)
	}
	return d
}()

// pathOf returns the document's path for a requested path.
func pathOf(path string) string {
	path, _, _ = strings.Cut(path, "?")
	if strings.HasPrefix(path, "/sessions/") {
		return "/sessions/{sessionId}"
	}
	return path
}

// documented compares an answer with the OpenAPI document. The document must list its status, and its members must match the schema.
func (f *fixture) documented(c call, resp *http.Response, body map[string]any) {
	f.Helper()
	item, known := document.Paths[pathOf(c.path)]
	op, may := item[strings.ToLower(c.method)]
	if !known || !may && resp.StatusCode == http.StatusMethodNotAllowed || c.path == "/openapi.json" {
		return // not part of the document
	}
	f.seen[fmt.Sprint(c.method, " ", pathOf(c.path), " ", resp.StatusCode)] = true
	text, ok := op.Responses[fmt.Sprint(resp.StatusCode)]
	if !ok {
		f.Errorf("%s %s: the document does not know status %d", c.method, c.path, resp.StatusCode)
		return
	}
	name := "Problem"
	if resp.StatusCode < 300 {
		_, name, _ = strings.Cut(string(text), "#/components/schemas/")
		name, _, _ = strings.Cut(name, `"`)
	}
	f.matches(name, body)
	for _, s := range asList(body["sessions"]) {
		f.matches("Session", s.(map[string]any))
	}
}

func asList(v any) []any { l, _ := v.([]any); return l }

func (f *fixture) matches(name string, body map[string]any) {
	f.Helper()
	schema, ok := document.Components.Schemas[name]
	if !ok {
		f.Errorf("no schema %q", name)
	}
	for _, member := range schema.Required {
		if _, ok := body[member]; !ok {
			f.Errorf("%s: %q is missing in %v", name, member, body)
		}
	}
	types := map[string]string{"string": "string", "integer": "float64", "boolean": "bool", "array": "[]interface {}"}
	for member, value := range body {
		p, ok := schema.Properties[member]
		switch {
		case !ok:
			f.Errorf("%s: the document does not know %q", name, member)
		case p.Enum != nil && !slices.Contains(p.Enum, value):
			f.Errorf("%s: %q is %v, which the document does not know", name, member, value)
		case p.Type != "" && fmt.Sprintf("%T", value) != types[p.Type]:
			f.Errorf("%s: %q is a %T, the document says %s", name, member, value, p.Type)
		}
	}
}

// FuzzIntent sends any body. The API accepts an intent with 202, and answers anything else with 400 or 413.
func FuzzIntent(fz *testing.F) {
	for _, tt := range rejects {
		if len(tt.call.body) < 1000 {
			fz.Add([]byte(tt.call.body))
		}
	}
	fz.Add([]byte(startBody("1:0:1:", "hd")))
	fz.Add([]byte(`{"type":"start","resource":"a","at":1700000000000}`))
	fz.Fuzz(func(t *testing.T, body []byte) {
		req, err := parse(intent.Names{}, body)
		if err != nil {
			return
		}
		var loose map[string]any
		if err := json.Unmarshal(body, &loose); err != nil {
			t.Fatalf("%q is accepted and no JSON object: %v", body, err)
		}
		if names := repeated(t, body); names != len(loose) {
			t.Fatalf("%q is accepted, and of its %d members %d are different", body, names, len(loose))
		}
		if at, _ := loose["at"].(float64); int64(at) != req.start.At {
			t.Fatalf("%q starts at %d", body, req.start.At)
		}
		if req.stop {
			if loose["sessionId"] != req.session {
				t.Fatalf("%q stops %q", body, req.session)
			}
			return
		}
		ref, _ := loose["resource"].(string)
		if strings.TrimRight(ref, ":") != req.start.Resource {
			t.Fatalf("%q starts %q", body, req.start.Resource)
		}
		if again, err := req.start.Canonical(intent.Names{}); err != nil || again != req.start {
			t.Fatalf("%q is not canonical: %v", body, err)
		}
	})
}

// repeated counts the members of a flat object, repeated names included.
func repeated(t *testing.T, body []byte) (n int) {
	dec := json.NewDecoder(bytes.NewReader(body))
	for {
		_, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return (n - 2) / 2 // without the braces, a name and a value each
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
}

// FuzzForwarded sends any chain of addresses through a trusted proxy. clientAddr returns no trusted proxy unless all are trusted, and no
// address to the left of an untrusted one.
func FuzzForwarded(fz *testing.F) {
	fz.Add("127.0.0.1, 203.0.113.9")
	fz.Add("203.0.113.9:80,10.0.0.1")
	fz.Add("[::1]:80 , ::ffff:10.0.0.1")
	trusted := lan()
	fz.Fuzz(func(t *testing.T, chain string) {
		r := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{"X-Forwarded-For": {chain}}}
		addr, err := clientAddr(r, trusted)
		if err != nil {
			return
		}
		hops := strings.Split(chain, ",")
		for i := len(hops) - 1; i >= 0; i-- {
			hop, err := parseHop(strings.TrimSpace(hops[i]))
			if err != nil && len(hops) == 1 && strings.TrimSpace(chain) == "" {
				return
			}
			if err != nil {
				t.Fatalf("%q has a malformed hop and gave %v", chain, addr)
			}
			if !within(hop, trusted) || i == 0 {
				if hop != addr {
					t.Fatalf("%q gave %v, want %v", chain, addr, hop)
				}
				return
			}
		}
	})
}
