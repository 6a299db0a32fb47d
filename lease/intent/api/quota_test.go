package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// A start above a quota is refused, with the time after which it is not, and changes nothing (I4).
func TestStartsAboveQuota(t *testing.T) {
	for _, tt := range []struct {
		quotas Quotas
		taken  int
		code   string
	}{
		{Quotas{StartRate: 1, StartRateAll: -1, Backlog: -1, BacklogAll: -1}, burst, "rate"},
		{Quotas{StartRate: -1, StartRateAll: 1, Backlog: -1, BacklogAll: -1}, burst, "rate"},
		{Quotas{StartRate: -1, StartRateAll: -1, Backlog: 3, BacklogAll: -1}, 3, "backlog"},
		{Quotas{StartRate: -1, StartRateAll: -1, Backlog: -1, BacklogAll: 4}, 4, "backlog"},
		{Quotas{StartRate: 100, StartRateAll: 100, Backlog: 3, BacklogAll: 100}, 3, "backlog"},
	} {
		f := setup(t, Config{Quotas: tt.quotas})
		for i := range tt.taken {
			f.start(startBody(fmt.Sprint("s", i), "p"))
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
		if resp, body := f.do(call{body: `{"type":"stream.stop","sessionId":"0190a8c2-8f5e-7c2a-9d7e-3b1f6a2c4d5e"}`}); resp.StatusCode !=
			http.StatusNotFound {
			t.Errorf("%+v: a stop: %s %v", tt.quotas, resp.Status, body)
		}
	}
}

// One token's quota is not another's, what is refused costs nothing, and what was used comes back.
func TestQuotasAreOfTokens(t *testing.T) {
	q := newQuotas(Quotas{StartRate: 1, StartRateAll: -1, Backlog: 20, BacklogAll: -1}, 100*time.Second)
	a, b := NewToken("a", "a", intent.ScopeWrite), NewToken("b", "b", intent.ScopeWrite)
	at := time.Unix(1_000_000, 0)
	admitted := func(tok *Token, tries int) (n int) {
		for range tries {
			if q.admit(context.Background(), tok, at, nil) == nil {
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
	// The rate gives 1 a second, the backlog 20 and one more each 5 s: at the end that is what counts.
	total := 0
	for range 100 {
		at = at.Add(time.Second)
		total += admitted(&a, 10)
	}
	if total < 30 || total > 34 {
		t.Errorf("%d in the 100 s after that, want 13 of the backlog and 20 that came back", total)
	}
}

// How many sessions there are is asked of Redis once a second at most; what was admitted since is counted here.
func TestBacklogIsRemembered(t *testing.T) {
	q := newQuotas(Quotas{StartRate: -1, StartRateAll: -1, Backlog: -1, BacklogAll: 10}, time.Hour)
	token := NewToken("a", "a", intent.ScopeWrite)
	asked, records := 0, 7
	count := func(context.Context) (int, error) { asked++; return records, nil }
	at := time.Unix(1_000_000, 0)
	for i := range 100 {
		if p := q.admit(t.Context(), &token, at, count); (p == nil) != (i < 3) {
			t.Errorf("start %d: %+v", i, p)
		}
	}
	at = at.Add(time.Second)
	records = 9
	if p := q.admit(t.Context(), &token, at, count); p != nil || asked != 2 {
		t.Errorf("a second later: %+v, asked %d times", p, asked)
	}
}

// Who hangs up while Redis is asked for all has it answer the others all the same.
func TestBacklogIsCountedForAll(t *testing.T) {
	q := newQuotas(Quotas{StartRate: -1, StartRateAll: -1, Backlog: -1, BacklogAll: 10}, time.Hour)
	token := NewToken("a", "a", intent.ScopeWrite)
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	q.admit(gone, &token, time.Unix(1_000_000, 0), func(ctx context.Context) (int, error) { return 10, ctx.Err() })
	if p := q.admit(t.Context(), &token, time.Unix(1_000_000, 0), nil); p == nil {
		t.Error("a start was admitted although there are as many sessions as are kept")
	}
}

// A start that was sent before another and waited longer, for how many sessions there are, earns nobody anything a second time.
func TestQuotasEarnOnce(t *testing.T) {
	q := newQuotas(Quotas{StartRate: 2, StartRateAll: -1, Backlog: -1, BacklogAll: -1}, time.Hour)
	token := NewToken("a", "a", intent.ScopeWrite)
	at, admitted := time.Unix(1_000_000, 0), 0
	for range 100 {
		for _, now := range []time.Time{at.Add(time.Second), at} {
			if q.admit(t.Context(), &token, now, nil) == nil {
				admitted++
			}
		}
	}
	if admitted != burst*2 {
		t.Errorf("%d starts were admitted in a second, want %d", admitted, burst*2)
	}
}
