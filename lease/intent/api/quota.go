package api

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Quotas bound the starts of each token, so that no client fills Redis. A start
// above a quota is answered with 429. 0 means the default, a negative number no
// limit.
type Quotas struct {
	// StartRate is the number of starts per second of a token. A client may
	// send the starts of five seconds at once. 0: 100.
	StartRate int
	// Backlog is the number of starts that a client may send ahead of the rate
	// at which they are restored: Backlog starts per Config.Retention. So a
	// token has at most twice as many records within Config.Retention. 0:
	// 20,000.
	Backlog int

	_ struct{}
}

const burst = 5

type quotas struct {
	Quotas
	retention time.Duration

	mu     sync.Mutex
	tokens map[[32]byte]*spent
}

type spent struct{ rate, backlog *rate.Limiter }

func newQuotas(q Quotas, retention time.Duration) *quotas {
	q.StartRate, q.Backlog = cmp.Or(q.StartRate, 100), cmp.Or(q.Backlog, 20_000)
	return &quotas{Quotas: q, retention: retention, tokens: map[[32]byte]*spent{}}
}

func limiter(n int, perSecond float64) *rate.Limiter {
	if n < 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(perSecond), n)
}

// admit takes one start from a token's quotas. If a quota is used up, admit
// takes nothing and returns the problem.
func (q *quotas) admit(t *Token, now time.Time) *problem {
	s := q.of(t)
	byRate := s.rate.ReserveN(now, 1)
	if wait := byRate.DelayFrom(now); wait > 0 {
		byRate.CancelAt(now)
		return late("rate", fmt.Sprintf("the token may send %d starts a second", q.StartRate), wait)
	}
	byBacklog := s.backlog.ReserveN(now, 1)
	if wait := byBacklog.DelayFrom(now); wait > 0 {
		byBacklog.CancelAt(now)
		byRate.CancelAt(now)
		return late("backlog", fmt.Sprintf("the token may send %d starts at once, and as many in %v after that", q.Backlog, q.retention), wait)
	}
	return nil
}

func (q *quotas) of(t *Token) *spent {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.tokens[t.SHA256]
	if s == nil {
		s = &spent{
			rate:    limiter(burst*q.StartRate, float64(q.StartRate)),
			backlog: limiter(q.Backlog, float64(q.Backlog)/q.retention.Seconds()),
		}
		q.tokens[t.SHA256] = s
	}
	return s
}

func late(code, detail string, wait time.Duration) *problem {
	p := refused(http.StatusTooManyRequests, code, detail)
	p.retryAfter = int(math.Ceil(wait.Seconds()))
	return p
}
