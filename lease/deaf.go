package lease

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// deaf is what Redis says against hearing the channel. Leases are granted without notices; only what these save is lost: a
// clean stop is then seen when its lease expires (G13).
type deaf struct {
	why atomic.Pointer[string] // nil: the channel is heard, or Redis is away

	// Owned by the subscription.
	told  bool
	words string // what Redis said last
	at    time.Time
}

// text is what Health adds to its reason.
func (d *deaf) text() string {
	why := d.why.Load()
	if why == nil {
		return ""
	}
	return "; notices are not heard, so a clean stop is seen only when its lease expires: " + *why
}

// subscribed takes the outcome of an attempt to hear the channel, nil when it is heard. The log has an entry when a refusal
// begins, once a renewal interval at most, and one when that has ended.
func (s *shell) subscribed(err error) {
	d := &s.deaf
	if err == nil {
		s.event(core.Event{Kind: core.EvSubscribed})
		if d.why.Store(nil); d.told {
			d.told = false
			s.log.Info("notices are heard again", zap.String("event", "noticesHeard"), zap.String("instance", s.cfg.InstanceID))
		}
		return
	}
	if err = redisstore.Cause(err); !isRefused(err) || redisstore.Outdated(err, true) {
		return // Redis is away, loads, or refuses to write, which is told of requests
	}
	words := err.Error()
	if d.told && words == d.words {
		return
	}
	d.words = words
	now := time.Now()
	tell := !d.told && (d.at.IsZero() || now.Sub(d.at) >= s.cfg.RenewInterval)
	if tell && redisstore.Denies(err) {
		err = redisstore.Granting(err, s.line(nil))
		words = err.Error()
	}
	d.why.Store(&words)
	if tell {
		d.told, d.at = true, now
		s.log.Warn("redis refuses to let notices be heard", zap.String("event", "noticesRefused"),
			zap.String("instance", s.cfg.InstanceID), zap.Error(err))
	}
}
