package lease

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// diagnosis is what an instance has met. The loop owns it; the others read what the loop publishes from it (shown).
type diagnosis struct {
	failures    failures
	met         bool      // Redis has answered
	unused      bool      // and had no epoch before this instance asked
	attached    bool      // its present epoch began because a replica attached itself
	silentSince core.Time // 0: it answers
	unanswered  core.Time // when the first request since an answer was sent; 0: all were answered
	agreed      int64     // ns: the quarantine of the group, when it is too short
	unchecked   bool      // Redis was away when it was to be checked
	recheckAt   core.Time // a refusal before this time does not have it checked again
	stallTold   core.Time // when a stall was last logged

	sessions *sourced // nil: they were not read
	looks    failing
	surplus  string    // more replicas acknowledge than configured: how many; "": not as far as is known
	deniedAt time.Time // when a denial was last logged
	deaf     string    // why notices are not heard; "": they are, or Redis is away
}

// failing are looks that failed one after the other. A look asks for more than any other request, so it may fail for good where all else
// succeeds: then the instance never finds anything that is free.
type failing struct {
	looks int
	since time.Time // when the first of them failed
	err   error
}

// errLate is of a look that was not sent.
var errLate = errors.New("Config.Sessions leaves no time to look at leases and heartbeats")

// failingMany is from how many on they are no accident.
const failingMany = 2

// shown is what the loop publishes for all other goroutines. It is immutable.
type shown struct {
	Health
	silent           bool
	acquire, release failure // what stands against such requests
}

// publishHealth publishes what this instance knows of itself, and returns when that changes even if nothing happens, 0 for never.
func (s *shell) publishHealth() (changes core.Time) {
	now := time.Now()
	h, ends := s.diagnose(now)
	s.shown.Store(&shown{h, s.silentSince != 0, s.failures.present(core.OpAcquire, now),
		s.failures.present(core.OpRelease, now)})
	for _, end := range []time.Time{s.failures.ends(now), ends} {
		if at := core.Time(end.Sub(s.base)); end.After(now) && (changes == 0 || at < changes) {
			changes = at
		}
	}
	return changes
}

// diagnose returns the present Health and when it ends, the zero time if that is not known.
func (s *shell) diagnose(now time.Time) (h Health, ends time.Time) {
	h = Health{State: HealthOK, Reason: "leases are granted"}
	if s.deaf != "" {
		h.Reason += "; notices are not heard, so a clean stop is seen only when its lease expires: " + s.deaf
	}
	if s.surplus != "" {
		h.Reason += "; one owner is not promised: " + s.surplus
	}
	if got := s.sessions; got != nil {
		h.Sessions, h.Unread, h.Skipped, h.SkippedNames = got.sessions, got.since, got.skipped, got.names
	}
	until, cause := s.core.Blocked()
	barred := s.time(until).After(now)
	f := s.failures.present(0, now, s.unasked(barred && (cause == core.CauseQuarantine || cause == core.CauseClock))...)
	switch {
	case errors.Is(f.err, ErrQuarantineTooShort):
		h.Err = f.err
		return h.as(HealthDisagrees, f.err.Error()), ends
	case isRefused(f.err) || f.err != nil && never(f.err):
		h.Err, h.Since = f.err, f.since
		return h.as(HealthRefused, words(f.err)), ends
	case s.core.Disbelieved() != "":
		return h.as(HealthSuperseded, fmt.Sprintf("redis has the epoch \"%s\", which is not believed: it was superseded, or an instance "+
			"with a shorter TTL began it; another is asked for", s.core.Disbelieved())), ends
	case s.silentSince != 0 || !s.met && f.err != nil:
		since := s.silentSince
		if s.unanswered != 0 {
			since = min(since, s.unanswered)
		}
		h.Since, h.Err = s.time(max(since, 1)), f.err
		return h.as(HealthSilent, "redis has not answered since "+stamp(h.Since)+because(f.err)), ends
	case !s.met:
		return h.as(HealthNotStarted, "Start has returned a moment ago, and redis' first answer is awaited"), ends
	case cause == core.CauseGroup:
		h.Err = s.disagrees()
		return h.as(HealthDisagrees, h.Err.Error()), ends
	case cause != core.CauseFailed && barred:
		return h.barred(cause, s.time(until), s.unused, s.attached), s.time(until)
	case s.looks.looks >= failingMany:
		return s.looks.health(h), ends
	}
	return s.found(h, now)
}

// unasked returns the kinds of requests that are not made before a bar ends, so that an earlier refusal says nothing of now.
func (s *shell) unasked(barred bool) []core.OpKind {
	switch {
	case !barred:
		return nil
	case s.table.empty():
		return []core.OpKind{core.OpAcquire, core.OpRenew, core.OpReassert}
	}
	return []core.OpKind{core.OpAcquire}
}

func (f *failing) health(h Health) Health {
	if errors.Is(f.err, errLate) {
		return h.as(HealthSessionsRefused, f.err.Error()+" since "+stamp(f.since))
	}
	state, why := HealthSilent, ""
	if isRefused(f.err) {
		state = HealthRefused
	}
	if f.err != nil {
		why = ": " + words(f.err)
	}
	h.Since, h.Err = f.since, f.err
	return h.as(state, "leases and heartbeats cannot be looked at since "+stamp(f.since)+why)
}

// found is health of the sessions that can be shared.
func (s *shell) found(h Health, now time.Time) (_ Health, ends time.Time) {
	if q := s.source.asked.Load(); q != nil {
		if ends = q.due; now.After(q.due) {
			return h.as(HealthSessionsRefused, "Config.Sessions has not returned since "+stamp(q.since)), ends
		}
	}
	got := s.sessions
	switch {
	case got == nil || got.sessions > 0 && got.err == nil:
	case got.sessions > 0:
		h.Reason += "; the sessions cannot be read since " + stamp(got.since) + ", those of then are shared: " + got.err.Error()
	case got.err != nil:
		h.Err = got.err
		h = h.as(HealthSessionsRefused, "the sessions cannot be read: "+got.err.Error())
	case got.skipped > 0:
		h = h.as(HealthSessionsRefused, "there is no session but malformed ones")
	default:
		h = h.as(HealthNoSessions, "there is no session to share")
	}
	return h, ends
}

// noted records the outcome of a request on op's leases. The first answer of a Redis that was away at Start has it checked.
func (s *shell) noted(op *core.Op, a *core.Answer) {
	a = a.Counted(op)
	if a.Failure == core.FailUncounted && a.Err == nil {
		counted := *a
		counted.Err = redisstore.Unacknowledged(a.Text)
		a = &counted
	}
	if redisstore.Denies(a.Err) {
		denied := *a
		denied.Err = s.granting(a.Err, namesOf(op.Items)...)
		a = &denied
		s.warnDenied(a.Err)
	}
	s.failures.note(op.Kind, a, s.time(op.Sent), time.Now())
	answered := a.Failure == core.FailNone
	if answered || isRefused(a.Err) {
		s.unanswered = 0
	} else if s.unanswered == 0 {
		s.unanswered = op.Sent
	}
	if op.Kind == core.OpLook && (a.Failure != core.FailUnsent || a.Err != nil) { // one that waited too long for the one before says nothing
		s.looked(a)
	}
	if !answered || !s.shown.Load().OK() { // whoever is answered next may ask Health why
		s.publishHealth()
	}
	if s.unchecked && (answered || isRefused(a.Err) && s.now().Mono >= s.recheckAt) {
		s.unchecked = false
		s.workers.Go(s.recheck)
	}
}

// warnDenied logs what an ACL denies, once in a renewal interval at most. Called by the loop.
func (s *shell) warnDenied(err error) {
	if now := time.Now(); s.deniedAt.IsZero() || now.Sub(s.deniedAt) >= s.cfg.RenewInterval && !s.failures.denied() {
		s.deniedAt = now
		s.log.Warn("the ACL of Redis denies what leases need", zap.String("event", "warning"), zap.String("instance", s.cfg.InstanceID),
			zap.Error(err))
	}
}

func (s *shell) looked(a *core.Answer) {
	if a.Failure == core.FailNone {
		s.looks = failing{}
		return
	}
	if s.looks.looks == 0 {
		s.looks.since = time.Now()
	}
	s.looks.looks++
	s.looks.err = a.Err
}

// disagrees is the error of an instance that its group's quarantine does not suit.
func (s *shell) disagrees() error {
	return s.store.TooShort(max(s.cfg.TTL, s.cfg.Quarantine), time.Duration(s.agreed))
}

// counted takes what Redis said of its replicas. An error that is not of them says nothing.
func (s *shell) counted(err error) {
	switch {
	case errors.Is(err, redisstore.ErrReplicas) && s.surplus != err.Error():
		s.surplus = err.Error()
		s.log.Warn("more replicas acknowledge than configured", zap.String("event", "replicasSurplus"),
			zap.String("instance", s.cfg.InstanceID), zap.Error(err))
	case err == nil && s.surplus != "":
		s.surplus = ""
		s.log.Info("no more replicas acknowledge than configured", zap.String("event", "replicasFit"),
			zap.String("instance", s.cfg.InstanceID))
	}
}

// subscribed takes the outcome of an attempt to hear the channel, nil when it is heard. Leases are granted without notices; only a clean
// stop is then seen no sooner than its lease expires (G13).
func (s *shell) subscribed(err error) {
	if err == nil {
		s.event(core.Event{Kind: core.EvSubscribed})
	} else if err = redisstore.Cause(err); !isRefused(err) || redisstore.Outdated(err, true) {
		return // Redis is away, loads, or refuses to write, which is told of requests
	} else {
		err = s.granting(err)
	}
	s.post(func() { s.hears(err) })
}

// hears logs when a refusal begins and when it has ended.
func (s *shell) hears(err error) {
	switch {
	case err == nil && s.deaf != "":
		s.deaf = ""
		s.log.Info("notices are heard again", zap.String("event", "noticesHeard"), zap.String("instance", s.cfg.InstanceID))
	case err != nil && s.deaf == "":
		s.log.Warn("redis refuses to let notices be heard", zap.String("event", "noticesRefused"),
			zap.String("instance", s.cfg.InstanceID), zap.Error(err))
		s.deaf = err.Error()
	}
}

// stalled warns of a loop that comes to its work more than a renewal interval after it was due: the process was stopped, or had no CPU, or
// Config.Notify did not return. It is logged once in a TTL at most. due is 0 where nothing was.
func (s *shell) stalled(due core.Time) {
	now := s.now().Mono
	late := now - due
	if due == 0 || late <= core.Time(s.cfg.RenewInterval) || s.stallTold != 0 && now-s.stallTold < core.Time(s.cfg.TTL) {
		return
	}
	s.stallTold = now
	s.log.Warn("this process stood still, or Config.Notify did not return; nothing was renewed meanwhile", zap.String("event", "stalled"),
		zap.String("instance", s.cfg.InstanceID), zap.Duration("wait", time.Duration(late)))
}
