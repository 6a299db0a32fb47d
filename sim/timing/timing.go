// Package timing is what a run's nodes, plan, engines and judge must agree on: how long a lease lasts and how often what is done.
package timing

import (
	"fmt"
	"time"
)

// Timings are the durations that a run's nodes work with.
type Timings struct {
	TTL          time.Duration // of a lease and of a heartbeat
	Renew        time.Duration // between renewals
	RenewTimeout time.Duration // of one renewal; 0: the nodes' own, not known
	Heartbeat    time.Duration // between heartbeats
	Discovery    time.Duration // between looks at the fleet and the sessions
	Poll         time.Duration // between polls of one session
	PollTimeout  time.Duration // of one poll
	Serve        time.Duration // how long the polled target takes to answer
}

// Bounds of every timing.
const (
	Min = time.Millisecond // of all but RenewTimeout
	Max = 24 * time.Hour
)

// Error is the condition of a timing that is out of bounds or contradicts another.
type Error struct {
	Field string // "TTL", "Renew", …
	Value time.Duration
	Why   string // what is said of the value: "must be shorter than …"
}

func (e *Error) Error() string { return fmt.Sprintf("%s is %v: it %s", e.Field, e.Value, e.Why) }

// Check returns an *Error about the first timing that no run can have; nil: they fit together. long allows polls that outlast the
// trust window as long as renewals succeed. grace is how long before that window ends work is asked to stop: a renewal is answered before.
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
