package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// A start above a quota is refused with a time to wait, and changes nothing.
func TestStartsAboveQuota(t *testing.T) {
	f := setup(t, Config{})
	for _, tt := range []struct {
		quotas Quotas
		taken  int
		code   string
	}{
		{Quotas{StartRate: 1, Backlog: -1}, burst, "rate"},
		{Quotas{StartRate: -1, Backlog: 3}, 3, "backlog"},
		{Quotas{StartRate: 100, Backlog: 3}, 3, "backlog"},
	} {
		var err error
		if f.handler, err = NewHandler(f.store, Config{Quotas: tt.quotas, Tokens: []Token{NewToken("w", writer, intent.ScopeWrite)}}); err != nil {
			t.Fatal(err)
		}
		for i := range tt.taken {
			f.start(startBody(fmt.Sprintf("%s%d-%d", tt.code, tt.quotas.StartRate, i), "p"))
		}
		before := f.dump()
		resp, body := f.do(call{body: startBody("more", "p")})
		wait, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		if resp.StatusCode != http.StatusTooManyRequests || body["type"] != problemPrefix+tt.code || err != nil || wait < 1 {
			t.Errorf("%+v: %s %v, Retry-After %q", tt.quotas, resp.Status, body, resp.Header.Get("Retry-After"))
		}
		if after := f.dump(); after != before {
			t.Errorf("%+v: Redis has changed", tt.quotas)
		}
		if resp, body := f.do(call{body: `{"type":"stop","sessionId":"0190a8c2-8f5e-7c2a-9d7e-3b1f6a2c4d5e"}`}); resp.StatusCode !=
			http.StatusNotFound {
			t.Errorf("%+v: a stop: %s %v", tt.quotas, resp.Status, body)
		}
	}
}

// Each token has its own quotas. A refused start costs nothing, and a used quota returns over time.
func TestQuotasAreOfTokens(t *testing.T) {
	q := newQuotas(Quotas{StartRate: 1, Backlog: 20}, 100*time.Second)
	a, b := NewToken("a", "a", intent.ScopeWrite), NewToken("b", "b", intent.ScopeWrite)
	at := time.Unix(1_000_000, 0)
	admitted := func(tok *Token, tries int) (n int) {
		for range tries {
			if q.admit(tok, at) == nil {
				n++
			}
		}
		return n
	}
	if n := admitted(&a, 100); n != burst {
		t.Errorf("%d at once, want %d", n, burst)
	}
	if n := admitted(&b, 1); n != 1 {
		t.Error("another token pays for it")
	}
	at = at.Add(2 * time.Second)
	if n := admitted(&a, 100); n != 2 {
		t.Errorf("%d in the 2 s after that, want 2: what was refused was counted", n)
	}
	// The rate allows 1 per second, the backlog 20 and one more each 5 s. In the end, the backlog decides.
	total := 0
	for range 100 {
		at = at.Add(time.Second)
		total += admitted(&a, 10)
	}
	if total < 30 || total > 34 {
		t.Errorf("%d in the 100 s after that, want 13 of the backlog and 20 that came back", total)
	}
}

// lists is a store whose lists take a while.
type lists struct {
	recorder
	take          time.Duration
	mu            sync.Mutex
	under, atOnce int
}

func (s *lists) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under += n
	s.atOnce = max(s.atOnce, s.under)
}

func (s *lists) List(context.Context, string, int) ([]intent.Session, string, error) {
	s.count(1)
	<-time.After(s.take)
	s.count(-1)
	return nil, "", nil
}

// At most two lists are read at a time. A client that waits in vain gets an error.
func TestTwoListsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &lists{take: 400 * time.Millisecond}
		h, err := NewHandler(st, Config{Logger: zap.NewNop(), Tokens: []Token{NewToken("r", reader, intent.ScopeRead)}})
		if err != nil {
			t.Fatal(err)
		}
		answers := make(chan *httptest.ResponseRecorder, 20)
		for range cap(answers) {
			go func() {
				r := httptest.NewRequest(http.MethodGet, "/sessions", nil)
				r.RemoteAddr = "127.0.0.1:5000"
				r.Header.Set("Authorization", "Bearer "+reader)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				answers <- w
			}()
		}
		codes := map[int]int{}
		for range cap(answers) {
			w := <-answers
			codes[w.Code]++
			if w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") != "1" {
				t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
			}
		}
		if want := map[int]int{http.StatusOK: 6, http.StatusTooManyRequests: 14}; st.atOnce != listsMax || fmt.Sprint(codes) != fmt.Sprint(want) {
			t.Errorf("%d lists at once, answers %v; want %d and %v", st.atOnce, codes, listsMax, want)
		}
	})
}
