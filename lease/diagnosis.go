package lease

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/logentry"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// diagnosis is an instance's knowledge of its Redis and its sessions. Health is computed from it on demand.
type diagnosis struct {
	*instance
	table *table

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

	sessions sourced
	troubles troubles
}

func newDiagnosis(in *instance, t *table) diagnosis {
	life := 2*in.cfg.RenewInterval + in.cfg.OpTimeout
	return diagnosis{instance: in, table: t, failures: newFailures(life), troubles: newTroubles()}
}

// sourced is the result of the last successful read of the sessions.
type sourced struct {
	read    bool // a read succeeded
	count   int
	skipped int
	names   []string
}

// learn runs f, which reads or writes the fields.
func (d *diagnosis) learn(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// troubled records that t persists, with err as its reason, or that t is over if err is nil.
func (d *diagnosis) troubled(t *trouble, err error) {
	d.learn(func() { t.is(err, d.log, d.cfg.InstanceID) })
}

func namesOf(items []core.Item) []string {
	names := make([]string, len(items))
	for i := range items {
		names[i] = items[i].ID
	}
	return names
}

// noted records the outcome of a request on op's leases. The loop calls noted before it passes the outcome to the core.
func (d *diagnosis) noted(op *core.Op, answer *core.Answer) {
	a := *answer.Counted(op)
	if a.Failure == core.FailUncounted && a.Err == nil {
		a.Err = redisstore.Unacknowledged(a.Text)
	}
	if redisstore.Denies(a.Err) {
		a.Err = d.granting(a.Err, namesOf(op.Items)...)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures.note(op.Kind, &a, d.time(op.Sent), time.Now())
	d.troubles.denied.is(d.failures.denied(), d.log, d.cfg.InstanceID)
	if a.Failure == core.FailNone || isRefused(a.Err) {
		d.unanswered = 0
	} else if d.unanswered == 0 {
		d.unanswered = op.Sent
	}
	if op.Kind == core.OpLook {
		d.looks.note(&a)
	}
}

// health implements Health of Keeper and Manager. It is safe for concurrent use and sends nothing.
func (d *diagnosis) health() Health {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.diagnose(time.Now())
	if what, since := d.overdue(); what != "" && h.State != HealthNotStarted {
		h.Since = since
		h = h.as(HealthBlocked, what+" has not returned since "+stamp(since))
	}
	switch state(d.state.Load()) {
	case stateDraining:
		return h.as(HealthStopped, "this instance is draining")
	case stateStopped:
		return h.as(HealthStopped, "this instance is stopped")
	case stateSettled:
		h.Settled = true
	}
	return h
}

func (d *diagnosis) failure(kind core.OpKind) (f failure) {
	d.learn(func() { f = d.failures.present(kind, time.Now()) })
	return f
}

func (d *diagnosis) renewals() (f failure) {
	d.learn(func() { f = d.failures.renewals(time.Now()) })
	return f
}

func (d *diagnosis) silent() (is bool) {
	d.learn(func() { is = d.silentSince != 0 })
	return is
}

// diagnose returns the current Health. The caller holds mu.
func (d *diagnosis) diagnose(now time.Time) Health {
	h := Health{Sessions: d.sessions.count, Skipped: d.sessions.skipped, SkippedNames: d.sessions.names,
		Deaf: d.troubles.deaf.err != nil, Surplus: d.troubles.surplus.err != nil, Withdrawn: d.time(d.withdrawn).After(now)}
	if d.troubles.unread.err != nil {
		h.Unread = d.troubles.unread.since
	}
	until := d.time(d.blocked)
	barred := until.After(now)
	f := d.failures.present(0, now, d.unasked(barred)...)
	if f.err == nil {
		f.err = d.troubles.unfit.err
	}
	switch {
	case errors.Is(f.err, errQuarantineTooShort):
		h.Err = f.err
		return h.as(HealthDisagrees, f.err.Error())
	case isRefused(f.err) || f.err != nil && never(f.err):
		h.Err, h.Since = f.err, f.since
		return h.as(HealthRefused, words(f.err))
	case d.disbelieved != "":
		return h.as(HealthSuperseded, "redis claims the epoch \""+d.disbelieved+
			"\", which was superseded or begun by an instance with a shorter TTL; this instance requests a new epoch")
	case d.silentSince != 0 || !d.met && f.err != nil:
		since := d.silentSince
		if d.unanswered != 0 {
			since = min(since, d.unanswered)
		}
		h.Since, h.Err = d.time(max(since, 1)), f.err
		return h.as(HealthSilent, "redis has not answered since "+stamp(h.Since)+because(f.err))
	case !d.met:
		return h.as(HealthNotStarted, "Start was not called, has not returned, or failed, or redis has not answered yet")
	case d.blockedBy == core.CauseGroup:
		h.Err = d.disagrees()
		return h.as(HealthDisagrees, h.Err.Error())
	case barred && d.blockedBy == core.CauseClock:
		h.Until = until
		return h.as(HealthClock, "redis' clock jumped forward: nothing is acquired before "+stamp(until))
	case barred && d.blockedBy != core.CauseFailed:
		h.Until = until
		return h.as(HealthQuarantine, ungranting(until, d.doubt, d.began))
	case d.looks.count >= failingMany:
		return h.blind(&d.looks)
	}
	return d.shareable(h)
}

// useless reports whether no session can be shared, although sessions exist or
// may exist.
func (d *diagnosis) useless() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions.count == 0 && (d.sessions.skipped > 0 || d.troubles.unread.err != nil)
}

// unasked returns the kinds of requests that a barred instance does not send. Earlier refusals of such requests are outdated.
func (d *diagnosis) unasked(barred bool) []core.OpKind {
	switch {
	case !barred || d.blockedBy != core.CauseQuarantine && d.blockedBy != core.CauseClock:
		return nil
	case d.table.empty():
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
func (d *diagnosis) shareable(h Health) Health {
	unread := d.troubles.unread.err
	switch {
	case unread != nil && h.Sessions == 0:
		h.Err = unread
		return h.as(HealthSessionsRefused, "the sessions cannot be read: "+unread.Error())
	case h.Sessions == 0 && h.Skipped > 0:
		return h.as(HealthSessionsRefused, "every session is malformed")
	case h.Sessions == 0 && d.sessions.read:
		h = h.as(HealthNoSessions, "there is no session to share")
	default:
		h = h.as(HealthOK, "leases are granted")
	}
	if h.Withdrawn {
		h.Reason += "; it could not acquire the leases that it was given, and gets none before " + stamp(d.time(d.withdrawn))
	}
	if h.Deaf {
		h.Reason += "; notices are not heard, so a clean stop is noticed only when its leases expire: " + d.troubles.deaf.err.Error()
	}
	if h.Surplus {
		h.Reason += "; one owner is not guaranteed: " + d.troubles.surplus.err.Error()
	}
	if unread != nil {
		h.Reason += "; the sessions cannot be read since " + stamp(h.Unread) + ", so the last known ones are shared: " + unread.Error()
	}
	return h
}

// refusal returns the error for a lease that Redis did not grant.
func (d *diagnosis) refusal(t *core.Tell) error {
	wait := time.Duration(t.Wait)
	switch t.Cause {
	case core.CauseHeld:
		return &heldError{name: t.ID, owner: t.Owner, ttl: wait}
	case core.CauseStuck:
		return fmt.Errorf("%w: this instance gave up its work under the lease, but the work has not returned yet",
			&heldError{name: t.ID, owner: d.cfg.InstanceID})
	case core.CauseQuarantine:
		return &quarantineError{until: time.Now().Add(wait), doubt: d.doubt, began: d.began}
	case core.CauseClock:
		return &quarantineError{until: time.Now().Add(wait), began: core.CauseClock}
	case core.CauseGroup:
		return d.disagrees()
	case core.CauseDrain:
		return ErrStopped
	case core.CauseWrongType:
		return fmt.Errorf("%w: %q; choose another name or Config.LeasePrefix", errWrongType, t.ID)
	default:
		return d.failure(core.OpAcquire).noResult(core.OpAcquire, "acquire", t.ID, logentry.Reason(t))
	}
}

// expired is the error of a term that was not renewed in time, with the error of the renewals.
func (d *diagnosis) expired(h *Lease, reason string) error {
	err := h.lostError(reason)
	switch f := d.renewals(); {
	case f.err == nil:
		return err
	case isRefused(f.err):
		return fmt.Errorf("%w: renewals were refused: %w", err, f.err)
	default:
		return unconfirmed{fmt.Errorf("%w: renewals were not answered: %w", err, f.err)}
	}
}

// unreached adds the last error of the connection to the core's text for an unanswered request.
func (d *diagnosis) unreached(text string) string {
	f := d.failure(0)
	if f.err == nil || isRefused(f.err) || strings.Contains(f.err.Error(), text) {
		return text
	}
	return text + because(f.err)
}

func (d *diagnosis) disagrees() error {
	return d.store.TooShort(max(d.cfg.TTL, d.cfg.Quarantine), time.Duration(d.agreed))
}

// subscribed records the outcome of an attempt to subscribe to the channel; nil means that notices arrive. Redis also grants leases
// to an instance that receives no notices.
func (d *diagnosis) subscribed(err error) {
	if err == nil {
		d.event(core.Event{Kind: core.EvSubscribed})
	} else if err = redisstore.Cause(err); !isRefused(err) || redisstore.Outdated(err, true) {
		return // Redis is away, loads, or refuses to write: other requests report that
	}
	d.troubled(&d.troubles.deaf, d.granting(err))
}

// stalled warns if the loop wakes more than a renewal interval late, because the process was stopped or starved. due is the planned
// wake-up, 0 for never. It logs at most once per TTL.
func (d *diagnosis) stalled(due core.Time) {
	now := d.now().Mono
	late := now - due
	if due == 0 || late <= core.Time(d.cfg.RenewInterval) || d.stallTold != 0 && now-d.stallTold < core.Time(d.cfg.TTL) {
		return
	}
	d.stallTold = now
	d.log.Warn("this process was paused, and renewed no lease meanwhile", zap.String("event", "stalled"),
		zap.String("instance", d.cfg.InstanceID), zap.Int64("wait", int64(late)/core.Millisecond))
}

// overdue names a call that has not returned for long, and when it began: a function of the user's program, the loop, or a request.
// Without such a call, what is "".
func (d *diagnosis) overdue() (what string, since time.Time) {
	return d.log.Calls.Late(time.Now().Add(-d.late()))
}

// watch logs when a function of the user's program does not return, and when it returns again.
func (d *diagnosis) watch() {
	for d.sleep(d.late() / 4) {
		var err error
		if what, since := d.overdue(); what != "" {
			err = fmt.Errorf("%s has not returned since %s", what, stamp(since))
		}
		d.troubled(&d.troubles.blocking, err)
	}
}
