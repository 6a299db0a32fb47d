package timing

import (
	"errors"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	s := time.Second
	good := Timings{TTL: 30 * s, Renew: 10 * s, RenewTimeout: 3 * s, Heartbeat: 10 * s, Discovery: 10 * s, Poll: 5 * s, PollTimeout: 5 * s, Serve: s}
	for _, c := range []struct {
		name  string
		spoil func(*Timings)
		long  bool
		grace time.Duration
		field string // "": it is valid
	}{
		{name: "of the specification", spoil: func(*Timings) {}},
		{name: "time-out not known", spoil: func(t *Timings) { t.RenewTimeout = 0 }},
		{name: "no TTL", spoil: func(t *Timings) { t.TTL = 0 }, field: "TTL"},
		{name: "negative poll", spoil: func(t *Timings) { t.Poll = -s }, field: "Poll"},
		{name: "discovery once a week", spoil: func(t *Timings) { t.Discovery = 7 * Max }, field: "Discovery"},
		{name: "renewal after expiry", spoil: func(t *Timings) { t.Renew = t.TTL }, field: "Renew"},
		{name: "no time for an answer", spoil: func(t *Timings) { t.Renew = 28 * s }, field: "Renew"},
		{name: "renewal before work is asked to stop", spoil: func(t *Timings) { t.Renew = 21 * s }, grace: 5 * s},
		{name: "renewal after that", spoil: func(t *Timings) { t.Renew = 22 * s }, grace: 5 * s, field: "Renew"},
		{name: "heartbeat after expiry", spoil: func(t *Timings) { t.Heartbeat = t.TTL }, field: "Heartbeat"},
		{name: "poll beyond trust", spoil: func(t *Timings) { t.PollTimeout = 28 * s }, field: "PollTimeout"},
		{name: "long poll", spoil: func(t *Timings) { t.PollTimeout = 28 * s }, long: true},
		{name: "slow target", spoil: func(t *Timings) { t.Serve = t.PollTimeout }, field: "Serve"},
	} {
		bad := good
		c.spoil(&bad)
		err, field := bad.Check(c.long, c.grace), ""
		var e *Error
		if errors.As(err, &e) {
			field = e.Field
		}
		if field != c.field || (err == nil) != (field == "") {
			t.Errorf("%s: %v, want an error about %q", c.name, err, c.field)
		}
	}
}
