package node

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// A slot that does not confirm a stop may still serve. The node asks it until it confirms, ends the session itself, or the trust in the
// leases ends. After the last of these, the session has failed.
func TestSlotThatDoesNotLetGo(t *testing.T) {
	const ends, distrust = -1, -2 // outcomes of a request besides a status
	for name, tc := range map[string]struct {
		answers []int // to successive DELETE requests
		want    string
	}{
		"confirmed":       {[]int{http.StatusNoContent}, ""},
		"confirmed later": {[]int{http.StatusServiceUnavailable, http.StatusNotFound, http.StatusNoContent}, ""},
		"ended":           {[]int{http.StatusServiceUnavailable, ends}, ""},
		"never confirmed": {[]int{http.StatusServiceUnavailable, distrust}, "the slot answered 500"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			end, asked := make(chan struct{}), 0
			slot := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					_ = http.NewResponseController(w).Flush()
					select {
					case <-end:
					case <-r.Context().Done():
					}
					return
				}
				status := tc.answers[asked] // requests are sequential
				asked++
				switch status {
				case ends:
					close(end)
				case distrust:
					cancel()
				}
				if status < 0 {
					status = http.StatusInternalServerError
				}
				w.WriteHeader(status)
			}))
			defer slot.Close()
			u, err := url.Parse(slot.URL)
			if err != nil {
				t.Fatal(err)
			}
			r := &receiver{target: u, http: httpClient()}
			p := r.pipeline(tuning{slot: "1"})
			if err := p.Start(ctx, 1); err != nil {
				t.Fatal(err)
			}
			p.Stop()
			if err := p.Wait(); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Wait: %v; want %q", err, tc.want)
			}
			if asked != len(tc.answers) {
				t.Errorf("asked %d times; want %d", asked, len(tc.answers))
			}
		})
	}
}
