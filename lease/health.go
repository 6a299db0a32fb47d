package lease

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/plain"
)

// HealthState says in one word whether an instance can be granted leases, and if not, why. Its String is stable, for machines.
type HealthState uint8

// The states. The first two are OK.
const (
	HealthOK              HealthState = iota // nothing that was asked lately was refused, or stayed without an answer
	HealthNoSessions                         // they would be, but there is no session to share
	HealthNotStarted                         // Start was not called, or failed, or has just returned and Redis' first answer is awaited
	HealthStopped                            // Stop was called: nothing is acquired any more
	HealthSilent                             // Redis has not answered what was sent at Since, nor since, or no look; Err is the last error
	HealthRefused                            // Redis refuses since Since, perhaps looks alone; Err is ErrRefused with its words
	HealthQuarantine                         // Redis was restarted or is new, and may have lost data: nothing is granted before Until
	HealthClock                              // Redis' clock jumped: nothing is acquired before Until
	HealthSessionsRefused                    // not one session can be shared, or found free; Err if they cannot be read
	HealthSuperseded                         // the server speaks for an epoch that was seen superseded: it is believed no more
	HealthBlocked                            // a function of the caller's has not returned since Since: Reason names it
	HealthDisagrees                          // the group that shares this epoch has another quarantine
)

var healthNames = [...]string{
	HealthOK: "ok", HealthNoSessions: "no-sessions", HealthNotStarted: "not-started", HealthStopped: "stopped",
	HealthSilent: "silent", HealthRefused: "refused", HealthQuarantine: "quarantine", HealthClock: "clock",
	HealthSessionsRefused: "sessions-refused", HealthSuperseded: "superseded", HealthBlocked: "blocked", HealthDisagrees: "disagrees",
}

// String returns the state's name.
func (s HealthState) String() string {
	if int(s) >= len(healthNames) {
		return fmt.Sprintf("HealthState(%d)", uint8(s))
	}
	return healthNames[s]
}

// HealthStates returns all states, in order.
func HealthStates() iter.Seq[HealthState] {
	return func(yield func(HealthState) bool) {
		for s := range healthNames {
			if !yield(HealthState(s)) {
				return
			}
		}
	}
}

// Health is what an instance knows of itself at one moment, for a readiness probe and for people. It sends no requests of its own. On a
// Redis that is out of memory, an instance that only renews is OK, because renewals succeed and only grants fail; so is an instance that
// sends nothing. A refusal counts until the same request succeeds, until a later write shows that Redis writes again, or until no request
// has met it for two renewal intervals.
type Health struct {
	State  HealthState
	Reason string    // one sentence, in the server's own words where it refuses
	Since  time.Time // Silent, Refused, Blocked
	Until  time.Time // Quarantine, Clock
	Err    error     // the last refusal or error of the connection, where there is one; errors.Is and errors.As look into it

	// Sessions is how many sessions are shared, as last read; Unread since when they cannot be read, zero if they can.
	Sessions int
	Unread   time.Time
	// Skipped is how many sessions are left out because they are malformed; SkippedNames has some of them, each with what is wrong.
	Skipped      int
	SkippedNames []string

	_ struct{}
}

// OK reports whether the instance is fit: nothing that it knows keeps it from being granted leases.
func (h Health) OK() bool { return h.State <= HealthNoSessions }

// String returns state and reason in one line.
func (h Health) String() string {
	text := h.State.String() + ": " + h.Reason
	if h.Skipped > 0 {
		text += fmt.Sprintf("; %d malformed sessions are left out: %s", h.Skipped, strings.Join(h.SkippedNames, "; "))
		if h.Skipped > len(h.SkippedNames) {
			text += "; …"
		}
	}
	return text
}

// Error returns nil if the instance is fit, and otherwise an error with String's text that wraps Err.
func (h Health) Error() error {
	if h.OK() {
		return nil
	}
	return unhealthy{h}
}

type unhealthy struct{ Health }

func (e unhealthy) Error() string { return e.String() }
func (e unhealthy) Unwrap() error { return e.Err }

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + words(err)
}

func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }

func (h Health) as(state HealthState, reason string) Health {
	h.State, h.Reason = state, reason
	return h
}

// skippedMax is how many malformed sessions Health names.
const skippedMax = 5

// skippedText is how many bytes of each text are shown.
const skippedText = 300

// SkippedError is what Config.Sessions may return beside valid IDs: some sessions are malformed and left out.
type SkippedError struct {
	Count int
	Names []string // some of them, each with what is wrong

	_ struct{}
}

// Error implements error.
func (e *SkippedError) Error() string {
	return fmt.Sprintf("%d malformed sessions are left out: %s", e.Count, strings.Join(e.Names, "; "))
}

// Skip counts one more malformed session. It escapes and shortens the text, because anybody who may write to Redis chooses the names in it.
func (e *SkippedError) Skip(what string) {
	e.Count++
	if len(e.Names) < skippedMax {
		e.Names = append(e.Names, plain.Text(plain.Cut(what, skippedText)))
	}
}
