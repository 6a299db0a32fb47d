package api

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Defaults of Quotas.
const (
	StartRateDefault    = 100
	StartRateAllDefault = 500
	BacklogDefault      = 20_000
	BacklogAllDefault   = 100_000
)

// Quotas bound the starts that a handler accepts, so that one token cannot fill Redis. A start above them is answered with 429 and
// changes nothing. 0 is the default, below is no limit.
type Quotas struct {
	// StartRate is how many starts a second one token may send, StartRateAll all of them together. Five seconds' worth may come at once.
	StartRate, StartRateAll int
	// Backlog is how many starts one token may send at once; they come back over Config.Retention, so in one such time it is twice as many,
	// and as many in each that follows. BacklogAll is how many sessions Redis may have a record of, whoever started them.
	Backlog, BacklogAll int

	_ struct{}
}

func (q Quotas) withDefaults() Quotas {
	q.StartRate, q.StartRateAll = cmp.Or(q.StartRate, StartRateDefault), cmp.Or(q.StartRateAll, StartRateAllDefault)
	q.Backlog, q.BacklogAll = cmp.Or(q.Backlog, BacklogDefault), cmp.Or(q.BacklogAll, BacklogAllDefault)
	return q
}

// burst is how many seconds' worth of starts may come at once.
const burst = 5

// bucket holds n of something and gives back perSecond; nil, which has no end, if n is negative.
func bucket(n int, perSecond float64) *rate.Limiter {
	if n < 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(perSecond), n)
}

// missing is how long b takes to hold one.
func missing(b *rate.Limiter, now time.Time) time.Duration {
	if b == nil {
		return 0
	}
	return time.Duration(max(0, 1-b.TokensAt(now)) / float64(b.Limit()) * float64(time.Second))
}

// quotas counts starts. Safe for concurrent use.
type quotas struct {
	Quotas
	retention time.Duration

	mu     sync.Mutex
	latest time.Time // that a bucket was asked at
	all    *rate.Limiter
	tokens map[[32]byte]*spent

	kept    once
	records int // as Redis told, and what was admitted since
}

// spent is what is left of one token's quotas, and of the entries that the log has of it.
type spent struct {
	rate, backlog, log *rate.Limiter
	untold             int // since the last entry
}

func newQuotas(q Quotas, retention time.Duration) *quotas {
	return &quotas{Quotas: q, retention: retention, all: bucket(burst*q.StartRateAll, float64(q.StartRateAll)), tokens: map[[32]byte]*spent{}}
}

// admit takes one start off the quotas, or says why it may not be: then nothing was taken. count asks Redis how many sessions it has.
func (q *quotas) admit(ctx context.Context, t *Token, now time.Time, count func(context.Context) (int, error)) *problem {
	if q.BacklogAll >= 0 && q.kept.due(now) {
		n, err := count(context.WithoutCancel(ctx)) // others go by the answer; the store's time-out bounds it
		q.kept.done()
		if err == nil { // else the start fails too, most likely, and Redis is asked again in a second
			q.mu.Lock()
			q.records = n
			q.mu.Unlock()
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now = q.notBefore(now)
	s := q.of(t)
	if wait := missing(s.rate, now); wait > 0 {
		return late("rate", fmt.Sprintf("the token may send %d starts a second", q.StartRate), wait)
	}
	if wait := missing(s.backlog, now); wait > 0 {
		return late("backlog", fmt.Sprintf("the token may send %d starts at once, and as many in %v after that", q.Backlog, q.retention), wait)
	}
	if wait := missing(q.all, now); wait > 0 {
		return late("rate", fmt.Sprintf("%d starts a second are accepted in all", q.StartRateAll), wait)
	}
	if q.BacklogAll >= 0 && q.records >= q.BacklogAll {
		return late("backlog", fmt.Sprintf("there are %d sessions, as many as are kept", q.records), fullRetry)
	}
	for _, b := range []*rate.Limiter{s.rate, s.backlog, q.all} {
		if b != nil {
			b.AllowN(now, 1)
		}
	}
	q.records++
	return nil
}

// notBefore is now, or where a later call has come first, its: a bucket that is told an earlier time gives the time between back twice.
// q.mu is held.
func (q *quotas) notBefore(now time.Time) time.Time {
	if now.After(q.latest) {
		q.latest = now
	}
	return q.latest
}

// of returns what is left to a token. q.mu is held.
func (q *quotas) of(t *Token) *spent {
	s := q.tokens[t.SHA256]
	if s == nil {
		s = &spent{
			rate:    bucket(burst*q.StartRate, float64(q.StartRate)),
			log:     bucket(burst*q.StartRate, float64(q.StartRate)),
			backlog: bucket(q.Backlog, float64(q.Backlog)/q.retention.Seconds()),
		}
		q.tokens[t.SHA256] = s
	}
	return s
}

// entry reports whether the log is to be told of a request of t that started nothing, and how many it was not told of since the last.
func (q *quotas) entry(t *Token, now time.Time) (since int, due bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now = q.notBefore(now)
	s := q.of(t)
	if s.log != nil && !s.log.AllowN(now, 1) {
		s.untold++
		return 0, false
	}
	since, s.untold = s.untold, 0
	return since, true
}

// fullRetry is when who was told that there are too many sessions should ask again: some have ended, or been forgotten.
const fullRetry = 10 * time.Second

func late(code, detail string, wait time.Duration) *problem {
	p := refused(http.StatusTooManyRequests, code, detail)
	p.retryAfter = int(math.Ceil(wait.Seconds()))
	return p
}

// once lets one caller at a time do something, and once a second at most.
type once struct {
	mu    sync.Mutex
	next  time.Time
	under bool
}

// due reports whether the caller is to do it; then he says when it is done.
func (o *once) due(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.under || now.Before(o.next) {
		return false
	}
	o.under, o.next = true, now.Add(time.Second)
	return true
}

func (o *once) done() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.under = false
}
