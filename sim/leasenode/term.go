package leasenode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

var errStopping = errors.New("stopping")

// term is a lease of this node, from "acquired" to "released".
type term struct {
	n       *settings
	a       *adapter
	session string
	fence   int64
	ctx     context.Context // ends with the lease
	end     context.CancelCauseFunc

	mu      sync.Mutex
	until   time.Time // end of the trust; zero: the adapter names none
	certain bool      // the last renewal succeeded
}

func (t *term) ask(ctx context.Context, op string) answer {
	return t.a.ask(ctx, op, t.session, t.n.key(t.session), t.n.ttl)
}

func (t *term) say(l line) {
	l.Session, l.Fence = t.session, t.fence
	t.n.say(l)
}

// hold polls and renews until the lease ends, and then releases what the store may still have of it.
func (t *term) hold() {
	var poller sync.WaitGroup
	poller.Go(t.polls)
	t.renewals()
	poller.Wait()
	select {
	case <-t.a.ended: // nobody can release
	default:
		t.say(line{Event: "released", Reason: context.Cause(t.ctx).Error()})
		t.ask(t.n.patience, opRelease)
	}
}

// lose ends the lease. It says so before a poll could begin that trusts it.
func (t *term) lose(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() == nil {
		t.end(why)
		if !errors.Is(why, errStopping) {
			t.say(line{Event: "lost", Reason: why.Error()})
		}
	}
}

func (t *term) deadline() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until
}

// renewals renews the lease until it ends. If the adapter names a deadline, a renewal that is not answered by then loses the lease.
func (t *term) renewals() {
	for next := time.Now().Add(t.n.renew); t.ctx.Err() == nil; {
		ctx, cancel := t.ctx, context.CancelFunc(func() {})
		if until := t.deadline(); !until.IsZero() {
			ctx, cancel = context.WithDeadline(t.ctx, until)
		}
		if pause(ctx, time.Until(next)) {
			next = t.renewal(ctx)
		}
		if ctx.Err() != nil {
			t.lose(errors.New("the lease expired"))
		}
		cancel()
	}
}

// renewal renews the lease once, and returns when to do so again.
func (t *term) renewal(ctx context.Context) time.Time {
	sent := time.Now()
	t.say(line{Event: "renewStart"})
	switch a := t.ask(ctx, opRenew); {
	case ctx.Err() != nil: // a window that has closed stays closed
	case a.ok():
		t.renewed(a)
	case a.err == nil && a.Retry:
		t.mu.Lock()
		t.certain = false
		t.say(line{Event: "renewFailed", Reason: a.Error})
		t.mu.Unlock()
		return time.Now().Add(t.n.renew / 10)
	default:
		t.lose(errors.New("renew: " + a.why()))
	}
	return sent.Add(t.n.renew)
}

func (t *term) renewed(a answer) {
	until := t.n.until(a)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() == nil && (t.until.IsZero() || time.Now().Before(t.until)) {
		t.until, t.certain = until, true
		t.say(line{Event: "renewed", Until: until})
	}
}

// polls polls the session at every interval, as long as the lease can be trusted.
func (t *term) polls() {
	for due := time.Now(); pause(t.ctx, time.Until(due)); {
		ctx, ok := t.begin()
		if !ok {
			due = time.Now().Add(t.n.poll / 10)
			continue
		}
		due = time.Now().Add(t.n.poll)
		why := t.post(ctx)
		t.say(line{Event: "pollEnd", Reason: why})
	}
}

// begin says that a poll begins, and reports whether one may. The poll ends with the context.
func (t *term) begin() (context.Context, bool) {
	if t.n.check && !t.confirmed() {
		return nil, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil || !t.certain || !t.until.IsZero() && time.Until(t.until) < t.n.pollTimeout {
		return nil, false
	}
	t.say(line{Event: "pollStart"})
	if t.n.pausing.CompareAndSwap(true, false) {
		t.say(line{Event: "paused"})
		t.a.freeze()
		<-time.After(50 * time.Millisecond) // the stop may reach this thread late
		return context.WithoutCancel(t.ctx), true
	}
	return t.ctx, true
}

// confirmed asks the adapter whether the lease is still held. It does not use a yes that took long: the node may have been frozen since.
func (t *term) confirmed() bool {
	sent := time.Now()
	a := t.ask(t.ctx, opCheck)
	if a.err != nil || !a.ok() && !a.Retry {
		t.lose(errors.New("check: " + a.why()))
	}
	return a.ok() && time.Since(sent) < t.n.ttl/4
}

// post polls the target, and returns why it failed.
func (t *term) post(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, t.n.pollTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.n.target+"/poll/"+t.session, nil)
	if err != nil {
		return err.Error()
	}
	req.Header.Set("X-Instance", t.n.instance)
	if t.fence != 0 {
		req.Header.Set("X-Fence", strconv.FormatInt(t.fence, 10))
	}
	resp, err := t.n.http.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode == http.StatusNoContent {
		return ""
	}
	return fmt.Sprintf("status %d", resp.StatusCode) // 409, a newer fence, changes nothing: the adapter alone ends a lease
}
