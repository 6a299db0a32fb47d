// Package timing defines the durations on which a run's nodes, plan, engines and judge agree.
package timing

import (
	"fmt"
	"time"
)

// Timings are the durations of a run.
type Timings struct {
	TTL          time.Duration // of leases and heartbeats
	Renew        time.Duration // between renewals
	RenewTimeout time.Duration // of one renewal; 0: chosen by the nodes, unknown
	Heartbeat    time.Duration // between heartbeats
	Discovery    time.Duration // between discoveries of instances and sessions
	Poll         time.Duration // between polls of one session
	PollTimeout  time.Duration // of one poll
	Serve        time.Duration // duration of the polled target's answer
}

// Bounds of all timings.
const (
	Min = time.Millisecond // of all but RenewTimeout
	Max = 24 * time.Hour
)

// Error reports a timing that is out of bounds or contradicts another one.
type Error struct {
	Field string // "TTL", "Renew", …
	Value time.Duration
	Why   string // predicate for the value: "must be shorter than …"
}

func (e *Error) Error() string { return fmt.Sprintf("%s is %v: it %s", e.Field, e.Value, e.Why) }

// Check returns an *Error for the first invalid timing, or nil. long allows polls that outlast the trust window while renewals succeed.
// Work is asked to stop grace before the trust window ends, and a renewal must be answered before that.
func (t Timings) Check(long bool, grace time.Duration) error {
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"TTL", t.TTL}, {"Renew", t.Renew}, {"Heartbeat", t.Heartbeat}, {"Discovery", t.Discovery},
		{"Poll", t.Poll}, {"PollTimeout", t.PollTimeout}, {"Serve", t.Serve},
	} {
		switch {
		case d.value < Min:
			return wrong(d.field, d.value, "is too short: at least %v, after a division by the speed", Min)
		case d.value > Max:
			return wrong(d.field, d.value, "is too long: at most %v, as a run", Max)
		}
	}
	switch {
	case t.Renew >= t.TTL:
		return wrong("Renew", t.Renew, "must be shorter than the TTL, which is %v: a third of it is usual", t.TTL)
	case t.Renew+t.RenewTimeout > t.TTL*99/100:
		return wrong("Renew", t.Renew, "leaves no time for an answer (%v) before trust ends: the TTL is %v", t.RenewTimeout, t.TTL)
	case t.Renew+t.RenewTimeout > t.TTL*99/100-grace:
		return wrong("Renew", t.Renew, "leaves no time for an answer (%v) before pipelines are asked to stop, %v before trust ends: the TTL "+
			"is %v", t.RenewTimeout, grace, t.TTL)
	case t.Heartbeat >= t.TTL:
		return wrong("Heartbeat", t.Heartbeat, "must be shorter than the TTL, which is %v", t.TTL)
	case t.PollTimeout > t.TTL*9/10 && !long:
		return wrong("PollTimeout", t.PollTimeout,
			"is longer than nine tenths of the TTL, which is %v: shorten it, or allow such polls with longPolls: true", t.TTL)
	case t.Serve >= t.PollTimeout:
		return wrong("Serve", t.Serve, "must be shorter than the poll time-out, which is %v", t.PollTimeout)
	}
	return nil
}

func wrong(field string, value time.Duration, format string, args ...any) error {
	return &Error{Field: field, Value: value, Why: fmt.Sprintf(format, args...)}
}
