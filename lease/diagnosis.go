package lease

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// diagnosis is an instance's knowledge of its Redis and its sessions. Health is computed from it on demand.
type diagnosis struct {
	mu       sync.Mutex // held for writes; the loop reads its own fields without it
	failures failures

	began core.Cause // written by the loop: why the current epoch began, if known

	// Written by the loop.
	met         bool      // Redis has answered
	doubt       string    // why the first epoch of a Redis without one began with a quarantine, if it began when this instance started
	silentSince core.Time // 0: Redis answers
	unanswered  core.Time // when the first request since the last answer was sent; 0: all were answered
	agreed      int64     // ns: the group's quarantine, if it is too short
	blocked     core.Time // nothing is acquired before this time
	blockedBy   core.Cause
	withdrawn   core.Time // this instance is not in the registry before this time
	disbelieved string    // the epoch that Redis claims and that this instance does not trust
	looks       failedLooks
	stallTold   core.Time // when a stall was last logged
	blocking    trouble   // a function of the caller's does not return

	sessions sourced
	unread   trouble // the sessions cannot be read
	denied   trouble // the ACL denies a request
	surplus  trouble // more replicas acknowledge than configured
	deaf     trouble // notices are not received
	unfit    trouble // a Redis that did not answer at Start turned out to be unusable
}

func newDiagnosis(cfg *Config) diagnosis {
	return diagnosis{
		failures: newFailures(2*cfg.RenewInterval + cfg.OpTimeout),
		unread: trouble{event: "sessionsFailed", message: "the sessions cannot be read; the last known ones are shared",
			overEvent: "sessionsRead", overMessage: "the sessions are read again", again: true},
		denied: trouble{event: "warning", message: "the ACL of Redis denies what leases need"},
		surplus: trouble{event: "replicasSurplus", message: "more replicas acknowledge than configured",
			overEvent: "replicasFit", overMessage: "no more replicas acknowledge than configured"},
		deaf: trouble{event: "noticesRefused", message: "redis refuses to let notices be heard",
			overEvent: "noticesHeard", overMessage: "notices are heard again"},
		blocking: trouble{event: "blocked", message: "a function of the caller's does not return",
			overEvent: "unblocked", overMessage: "the caller's functions return again"},
		unfit: trouble{event: "warning", message: "redis cannot be used"},
	}
}

func (d *diagnosis) learn(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

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

// troubled records that t lasts with err, or is over if err is nil.
func (s *shell) troubled(t *trouble, err error) {
	s.learn(func() { t.is(err, s.log, s.cfg.InstanceID) })
}

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

// failedLooks counts consecutive failed discoveries. A discovery needs more rights than any other request, so it may fail forever while
// everything else succeeds. Then the instance never finds a free lease.
type failedLooks struct {
	count int
	since time.Time // when the first of them failed
	err   error
}

// failingMany is the number of failed discoveries in a row that Health reports.
const failingMany = 2

// errLate is the error of a discovery that was not sent.
var errLate = errors.New("Config.Sessions leaves no time to read leases and heartbeats")

func (l *failedLooks) note(a *core.Answer) {
	switch {
	case a.Failure == core.FailNone:
		*l = failedLooks{}
	case a.Failure == core.FailUnsent && a.Err == nil: // it waited too long for the previous one
	default:
		if l.count == 0 {
			l.since = time.Now()
		}
		l.count++
		l.err = a.Err
	}
}

// noted records the outcome of a request on op's leases. The loop calls it before it passes the outcome to the core.
func (s *shell) noted(op *core.Op, answer *core.Answer) {
	a := *answer.Counted(op)
	if a.Failure == core.FailUncounted && a.Err == nil {
		a.Err = redisstore.Unacknowledged(a.Text)
	}
	if redisstore.Denies(a.Err) {
		a.Err = s.granting(a.Err, namesOf(op.Items)...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures.note(op.Kind, &a, s.time(op.Sent), time.Now())
	s.denied.is(s.failures.denied(), s.log, s.cfg.InstanceID)
	if a.Failure == core.FailNone || isRefused(a.Err) {
		s.unanswered = 0
	} else if s.unanswered == 0 {
		s.unanswered = op.Sent
	}
	if op.Kind == core.OpLook {
		s.looks.note(&a)
	}
}

// health implements Health of Keeper and Manager. It is safe for concurrent use and sends nothing.
func (s *shell) health() Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.diagnose(time.Now())
	if what, since := s.overdue(); what != "" && h.State != HealthNotStarted {
		h.Since = since
		h = h.as(HealthBlocked, what+" has not returned since "+stamp(since))
	}
	switch state(s.state.Load()) {
	case stateDraining:
		return h.as(HealthStopped, "this instance is draining")
	case stateStopped:
		return h.as(HealthStopped, "this instance is stopped")
	case stateSettled:
		h.Settled = true
	}
	return h
}

func (d *diagnosis) silent() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.silentSince != 0
}

// diagnose returns the current Health. The caller holds mu.
func (s *shell) diagnose(now time.Time) Health {
	h := Health{Sessions: s.sessions.count, Skipped: s.sessions.skipped, SkippedNames: s.sessions.names,
		Deaf: s.deaf.err != nil, Surplus: s.surplus.err != nil, Withdrawn: s.time(s.withdrawn).After(now)}
	if s.unread.err != nil {
		h.Unread = s.unread.since
	}
	until := s.time(s.blocked)
	barred := until.After(now)
	f := s.failures.present(0, now, s.unasked(barred)...)
	if f.err == nil {
		f.err = s.unfit.err
	}
	switch {
	case errors.Is(f.err, errQuarantineTooShort):
		h.Err = f.err
		return h.as(HealthDisagrees, f.err.Error())
	case isRefused(f.err) || f.err != nil && never(f.err):
		h.Err, h.Since = f.err, f.since
		return h.as(HealthRefused, words(f.err))
	case s.disbelieved != "":
		return h.as(HealthSuperseded, "redis claims the epoch \""+s.disbelieved+
			"\", which was superseded or begun by an instance with a shorter TTL; this instance asks for another")
	case s.silentSince != 0 || !s.met && f.err != nil:
		since := s.silentSince
		if s.unanswered != 0 {
			since = min(since, s.unanswered)
		}
		h.Since, h.Err = s.time(max(since, 1)), f.err
		return h.as(HealthSilent, "redis has not answered since "+stamp(h.Since)+because(f.err))
	case !s.met:
		return h.as(HealthNotStarted, "Start was not called, has not returned, or failed, or redis has not answered yet")
	case s.blockedBy == core.CauseGroup:
		h.Err = s.disagrees()
		return h.as(HealthDisagrees, h.Err.Error())
	case barred && s.blockedBy == core.CauseClock:
		h.Until = until
		return h.as(HealthClock, "redis' clock jumped forward: nothing is acquired before "+stamp(until))
	case barred && s.blockedBy != core.CauseFailed:
		h.Until = until
		return h.as(HealthQuarantine, ungranting(until, s.doubt, s.began))
	case s.looks.count >= failingMany:
		return h.blind(&s.looks)
	}
	return s.shareable(h)
}

// unasked returns the kinds of requests that are not sent while a bar lasts, so their earlier refusals are outdated.
func (s *shell) unasked(barred bool) []core.OpKind {
	switch {
	case !barred || s.blockedBy != core.CauseQuarantine && s.blockedBy != core.CauseClock:
		return nil
	case s.table.empty():
		return []core.OpKind{core.OpAcquire, core.OpRenew, core.OpReassert}
	}
	return []core.OpKind{core.OpAcquire}
}

func (h Health) blind(l *failedLooks) Health {
	h.Since, h.Err = l.since, l.err
	state := HealthSilent
	switch {
	case errors.Is(l.err, errLate):
		state = HealthSessionsRefused
	case isRefused(l.err):
		state = HealthRefused
	}
	return h.as(state, "leases and heartbeats cannot be read since "+stamp(l.since)+because(l.err))
}

// shareable returns h for an instance that Redis serves: whether there are sessions, and what limits it nevertheless.
func (s *shell) shareable(h Health) Health {
	unread := s.unread.err
	switch {
	case unread != nil && h.Sessions == 0:
		h.Err = unread
		return h.as(HealthSessionsRefused, "the sessions cannot be read: "+unread.Error())
	case h.Sessions == 0 && h.Skipped > 0:
		return h.as(HealthSessionsRefused, "every session is malformed")
	case h.Sessions == 0 && s.sessions.read:
		h = h.as(HealthNoSessions, "there is no session to share")
	default:
		h = h.as(HealthOK, "leases are granted")
	}
	if h.Withdrawn {
		h.Reason += "; it could not acquire the leases that it was given, and gets none before " + stamp(s.time(s.withdrawn))
	}
	if h.Deaf {
		h.Reason += "; notices are not heard, so a clean stop is noticed only when its leases expire: " + s.deaf.err.Error()
	}
	if h.Surplus {
		h.Reason += "; one owner is not guaranteed: " + s.surplus.err.Error()
	}
	if unread != nil {
		h.Reason += "; the sessions cannot be read since " + stamp(h.Unread) + ", so the last known ones are shared: " + unread.Error()
	}
	return h
}

func (s *shell) disagrees() error {
	return s.store.TooShort(max(s.cfg.TTL, s.cfg.Quarantine), time.Duration(s.agreed))
}

// subscribed records the outcome of an attempt to subscribe to the channel, nil once notices arrive. Leases are granted without notices.
func (s *shell) subscribed(err error) {
	if err == nil {
		s.event(core.Event{Kind: core.EvSubscribed})
	} else if err = redisstore.Cause(err); !isRefused(err) || redisstore.Outdated(err, true) {
		return // Redis is away, loads, or refuses to write: other requests report that
	}
	s.troubled(&s.deaf, s.granting(err))
}

// stalled warns of a loop that wakes more than a renewal interval late: the process was stopped or starved. due is the planned wake-up, 0
// for never. It logs at most once per TTL.
func (s *shell) stalled(due core.Time) {
	now := s.now().Mono
	late := now - due
	if due == 0 || late <= core.Time(s.cfg.RenewInterval) || s.stallTold != 0 && now-s.stallTold < core.Time(s.cfg.TTL) {
		return
	}
	s.stallTold = now
	s.log.Warn("this process did not run; nothing was renewed meanwhile", zap.String("event", "stalled"),
		zap.String("instance", s.cfg.InstanceID), zap.Int64("wait", int64(late)/core.Millisecond))
}

// late is how long the caller's functions and the loop may take: a renewal and its answer, less than a TTL.
func (s *shell) late() time.Duration { return s.cfg.RenewInterval + s.cfg.OpTimeout }

// overdue returns the caller's function that does not return, or the loop, or a request, and since when. "" means none.
func (s *shell) overdue() (what string, since time.Time) {
	return s.log.Calls.Late(time.Now().Add(-s.late()))
}

// watch logs when functions of the caller's do not return, and when they return again.
func (s *shell) watch() {
	for s.sleep(s.late() / 4) {
		var err error
		if what, since := s.overdue(); what != "" {
			err = fmt.Errorf("%s has not returned since %s", what, stamp(since))
		}
		s.troubled(&s.blocking, err)
	}
}
