package api

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// Paths, members, types, scopes and the reason have the names of ADR-003. The neutral names are unknown.
func TestADR003(t *testing.T) {
	st, err := store.New(redistest.Start(t).Client(), store.Options{Names: intent.ADR003()})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	file := fmt.Sprintf("w sha256:%x v3:write,v3:read\nr sha256:%x v3:read", sha256.Sum256([]byte(writer)), sha256.Sum256([]byte(reader)))
	tokens, err := ParseTokens(strings.NewReader(file), intent.ADR003())
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHandler(st, Config{Names: intent.ADR003(), Tokens: tokens, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	const id = "0190a8c2-8f5e-7c2a-9d7e-3b1f6a2c4d5e"
	do := func(method, path, secret, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Authorization", "Bearer "+secret)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	if _, _, err := st.Put(t.Context(), id, intent.Request{Resource: "a", At: 5000}, time.Minute); err != nil {
		t.Fatal(err)
	}
	bus, err := intentbus.Open(st, "w")
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	end := intentbus.Write{Session: id, Resource: "a", State: intent.StateEnded, Reason: intent.ReasonNoSlot}
	if _, err := bus.Write(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	const start = `{"type":"stream.start","serviceRef":"b","startMs":5000}`
	for _, tt := range []struct {
		method, path, secret, body string
		code                       int
		want                       []string
	}{
		{http.MethodPost, "/api/v3/intents", writer, start, http.StatusAccepted, []string{`{"sessionId":`}},
		{http.MethodPost, "/api/v3/intents", writer, start, http.StatusAccepted, []string{`"replayed":true`}},
		{http.MethodPost, "/api/v3/intents", writer, `{"type":"stream.stop","sessionId":"` + id + `"}`, http.StatusAccepted, []string{`"ended":true`}},
		{http.MethodPost, "/api/v3/intents", reader, start, http.StatusForbidden, []string{"v3:write"}},
		{http.MethodPost, "/api/v3/intents", writer, `{"type":"start","resource":"b"}`, http.StatusBadRequest, []string{`\"resource\" is not known`}},
		{http.MethodPost, "/api/v3/intents", writer, `{"type":"stream.start"}`, http.StatusBadRequest, []string{"serviceRef is missing"}},
		{http.MethodPost, "/intents", writer, start, http.StatusNotFound, nil},
		{http.MethodGet, "/sessions", reader, "", http.StatusNotFound, nil},
		{
			http.MethodGet, "/api/v3/sessions/" + id, reader, "", http.StatusOK,
			[]string{`"serviceRef":"a"`, `"startMs":5000`, `"reason":"R_NO_TUNER"`},
		},
		{http.MethodGet, "/api/v3/sessions", reader, "", http.StatusOK, []string{`"serviceRef":"a"`, `"reason":"R_NO_TUNER"`, `"serviceRef":"b"`}},
		{
			http.MethodGet, "/api/v3/openapi.json", reader, "", http.StatusOK,
			[]string{`"/api/v3/intents": {`, `"/api/v3/sessions/{sessionId}"`, `"required": ["type", "serviceRef"]`, `"serviceRef": {`, `"startMs": {`,
				`"const": "stream.start"`, `"const": "stream.stop"`, "(scope v3:read)", `"R_NO_TUNER"`},
		},
	} {
		w := do(tt.method, tt.path, tt.secret, tt.body)
		for _, want := range tt.want {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s %s: %s lacks %s", tt.method, tt.path, w.Body, want)
			}
		}
		for _, neutral := range []string{`"resource":`, `"at":`, "R_NO_SLOT", `"/intents"`, "scope write"} {
			if strings.Contains(w.Body.String(), neutral) {
				t.Errorf("%s %s: %s has %s", tt.method, tt.path, w.Body, neutral)
			}
		}
		if w.Code != tt.code {
			t.Errorf("%s %s %s: %d %s, want %d", tt.method, tt.path, tt.body, w.Code, w.Body, tt.code)
		}
	}
}
