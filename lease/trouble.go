package lease

import (
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
)

// trouble is a lasting problem. The log has an entry when it begins and, with an overEvent, when it ends.
type trouble struct {
	event, message         string
	overEvent, overMessage string
	again                  bool // logged again while it lasts

	err   error // nil: it is over
	since time.Time
	told  time.Time // when it was last logged
}

// toldEvery is the least time between two log entries of one trouble that has not ended.
const toldEvery = time.Minute

func (t *trouble) is(err error, log *zaplog.Log, instance string) {
	before, now := t.err, time.Now()
	t.err = err
	if before == nil {
		t.since = now
	}
	switch {
	case err != nil && (before == nil || t.again) && now.Sub(t.told) >= toldEvery:
		t.told = now
		log.Warn(t.message, zap.String("event", t.event), zap.String("instance", instance), zap.String("since", stamp(t.since)),
			zap.Error(err), zaplog.Stack(err))
	case err == nil && before != nil && t.overEvent != "":
		t.told = time.Time{}
		log.Info(t.overMessage, zap.String("event", t.overEvent), zap.String("instance", instance))
	}
}

// troubles are the lasting problems of an instance.
type troubles struct {
	blocking trouble // a function of your program does not return
	unread   trouble // the sessions cannot be read
	denied   trouble // the ACL denies a request
	surplus  trouble // more replicas acknowledge than configured
	deaf     trouble // notices are not received
	unfit    trouble // a Redis that did not answer at Start turned out to be unusable
}

func newTroubles() troubles {
	return troubles{
		unread: trouble{event: "sessionsFailed", message: "the sessions cannot be read; the last known ones are shared",
			overEvent: "sessionsRead", overMessage: "the sessions are read again", again: true},
		denied: trouble{event: "warning", message: "the ACL of Redis denies what leases need"},
		surplus: trouble{event: "replicasSurplus", message: "more replicas acknowledge than configured",
			overEvent: "replicasFit", overMessage: "no more replicas acknowledge than configured"},
		deaf: trouble{event: "noticesRefused", message: "redis refuses the subscription to notices",
			overEvent: "noticesHeard", overMessage: "redis accepts the subscription to notices again"},
		blocking: trouble{event: "blocked", message: "a function of your program does not return",
			overEvent: "unblocked", overMessage: "the functions of your program return again"},
		unfit: trouble{event: "warning", message: "redis cannot be used"},
	}
}
