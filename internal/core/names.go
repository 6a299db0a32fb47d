package core

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
