package lease

import (
	"fmt"
	"strings"
	"time"
)

// The values of Health.State. The first two are OK.
// docs/operations.md says what to do in each state.
const (
	// HealthOK: no recent request was refused or stayed unanswered.
	HealthOK = "ok"
	// HealthNoSessions: like HealthOK, but there is no session to share.
	HealthNoSessions = "no-sessions"
	// HealthNotStarted: Start was not called, failed, or has just returned and
	// Redis has not answered yet.
	HealthNotStarted = "not-started"
	// HealthStopped: Stop was called: the instance acquires nothing any more.
	HealthStopped = "stopped"
	// HealthSilent: Redis has answered no request, or no discovery, since
	// Since; Err is the last error.
	HealthSilent = "silent"
	// HealthRefused: Redis refuses requests, or only discoveries, since Since;
	// Err is its text.
	HealthRefused = "refused"
	// HealthQuarantine: Redis may have lost data, or an operator changed the
	// quarantine: no grants before Until.
	HealthQuarantine = "quarantine"
	// HealthClock: Redis' clock jumped: the instance acquires nothing before
	// Until.
	HealthClock = "clock"
	// HealthSessionsRefused: all sessions are malformed, or Sessions fails
	// (Err) or takes too long.
	HealthSessionsRefused = "sessions-refused"
	// HealthSuperseded: the server has an epoch that a later one has
	// superseded, so the instance does not trust this server.
	HealthSuperseded = "superseded"
	// HealthBlocked: a function of the caller's has not returned since Since;
	// Reason names it.
	HealthBlocked = "blocked"
	// HealthDisagrees: the quarantine of the group that shares this epoch is
	// too short for this instance.
	HealthDisagrees = "disagrees"
)

// Health is the state of an instance at one moment, for a readiness probe and
// for people. Health sends no requests of its own. On a full Redis, an instance
// that only renews still reports ok, because renewals succeed and only grants
// fail. An instance that sends nothing reports ok, too. Health reports a
// refusal until the same kind of request succeeds, until another write shows
// that Redis accepts writes again, or until two renewal intervals pass without
// that refusal.
type Health struct {
	State  string    // HealthOK, …; stable, for machines
	Reason string    // one sentence, with the server's own text if it refuses
	Since  time.Time // with Silent, Refused, Blocked
	Until  time.Time // with Quarantine, Clock
	Err    error     // the last refusal or error of the connection, if any

	// Sessions is how many sessions are shared, as last read. Unread is when
	// reading them began to fail; zero if it works.
	Sessions int
	Unread   time.Time
	// Settled: every session has its owner, and no lease has to move, as far as
	// this instance knows.
	Settled bool
	// Skipped counts the malformed sessions. SkippedNames names some of them,
	// each with the reason.
	Skipped      int
	SkippedNames []string

	// Deaf, Surplus and Withdrawn limit an instance that can still be granted
	// leases. Reason explains them.
	//
	// Deaf: this instance receives no notices, so it finds a released lease
	// free only when the lease would have expired.
	Deaf bool
	// Surplus: more replicas acknowledge than Config.Replicas, so one owner is
	// not guaranteed.
	Surplus bool
	// Withdrawn: this instance left the registry for a while, because its
	// acquisitions fail while those of other instances succeed.
	Withdrawn bool

	_ struct{}
}

// OK reports whether the instance can be granted leases, as far as it knows.
func (h Health) OK() bool { return h.State == HealthOK || h.State == HealthNoSessions }

// String returns state and reason in one line.
func (h Health) String() string {
	text := h.State + ": " + h.Reason
	if h.Skipped > 0 {
		text += fmt.Sprintf("; %d malformed sessions are left out: %s", h.Skipped, strings.Join(h.SkippedNames, "; "))
		if h.Skipped > len(h.SkippedNames) {
			text += "; …"
		}
	}
	return text
}

// Error returns nil if OK, and otherwise an error with String's text that wraps
// Err.
func (h Health) Error() error {
	if h.OK() {
		return nil
	}
	return unhealthy{h}
}

type unhealthy struct{ Health }

func (e unhealthy) Error() string { return e.String() }
func (e unhealthy) Unwrap() error { return e.Err }

func (h Health) as(state, reason string) Health {
	h.State, h.Reason = state, reason
	return h
}
