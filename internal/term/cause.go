package term

// Cause is the reason for a change of a lease or of a core.
type Cause uint8

// The causes; String gives the form that logs use.
const (
	CauseNone       Cause = iota
	CauseExpired          // the trust window ended
	CauseTaken            // another owner holds it
	CauseGone             // the key no longer exists
	CauseSuperseded       // a higher fence was granted
	CauseNoAnswer         // an attempt was not answered in time
	CauseFailed           // an attempt failed
	CauseClock            // clocks stepped against each other
	CauseStuck            // the guarded work made no progress
	CauseRequested        // the user asked
	CauseRebalance        // another instance asked for it
	CauseDrain            // this instance stops
	CauseHeld             // another owner holds it
	CauseQuarantine       // Redis lost its data and grants nothing yet
	CauseWrongType        // the key holds another type
	CauseUnwanted         // its session went or was paused
	CauseForgot           // Redis may have lost it: to be reasserted
	CauseGroup            // the group's quarantine is shorter than this instance's TTL
	CauseUncounted        // too few replicas acknowledged it
	CauseAttached         // a replica attached itself
	CauseOperator         // an operator changed the group's quarantine or replicas
)

var causeNames = [...]string{
	CauseNone: "", CauseExpired: "expired", CauseTaken: "taken", CauseGone: "gone", CauseSuperseded: "superseded",
	CauseNoAnswer: "no answer", CauseFailed: "failed", CauseClock: "clock", CauseStuck: "stuck",
	CauseRequested: "requested", CauseRebalance: "rebalance", CauseDrain: "drain", CauseHeld: "held",
	CauseQuarantine: "quarantine", CauseWrongType: "wrong type", CauseUnwanted: "unwanted", CauseForgot: "redis forgot",
	CauseGroup: "quarantine of the group too short", CauseUncounted: "not acknowledged", CauseAttached: "replica attached",
	CauseOperator: "operator",
}

// String returns the name of the cause for logs and histories.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return "unknown"
}
