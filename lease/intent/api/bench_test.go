package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// Accepted starts a second, every one a new session: over HTTP on loopback, and the bare script through the same store, with the
// same number of callers. Compare the two:
//
//	go test ./lease/intent/api -run '^$' -bench Accept -benchtime 3s -count 5
func BenchmarkAccept(b *testing.B) {
	const callers = 32 // a core
	server := redistest.Start(b)
	st, err := store.New(server.Client(), store.Options{PoolSize: 64})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	var n atomic.Int64
	b.Run("script", func(b *testing.B) {
		b.SetParallelism(callers)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				s, err := intent.Start{ServiceRef: fmt.Sprint("s", n.Add(1))}.Canonical()
				if err != nil {
					b.Error(err)
				}
				id := uuid.Must(uuid.NewV7()).String()
				_, _, err = st.PutSessionWithIdempotency(b.Context(), intent.Session{ID: id, Start: s}, s.Key(), KeyTTLDefault)
				if err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("http", func(b *testing.B) {
		h, err := NewHandler(st, Config{Tokens: []Token{NewToken("w", writer, intent.ScopeWrite)}})
		if err != nil {
			b.Fatal(err)
		}
		srv := httptest.NewServer(h)
		defer srv.Close()
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}
		defer client.CloseIdleConnections()
		b.ResetTimer()
		b.SetParallelism(callers)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				body := startBody(fmt.Sprint("s", n.Add(1)), "p")
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, srv.URL+"/api/v3/intents", strings.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+writer)
				req.Header.Set("Content-Type", "application/json")
				resp, err := client.Do(req)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusAccepted {
					b.Error(resp.Status)
				}
			}
		})
	})
}
