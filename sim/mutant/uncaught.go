package mutant

// uncaught are mutants that were tried, and why no guarantee catches them.
var uncaught = []Uncaught{
	{"timeout-means-not-acquired", "An acquisition that was not answered is taken as refused, and the key not looked for.",
		"The session waits until the key expires, a TTL; but only a fault makes an answer fail to come, and while one lasts the time " +
			"limits of G5 and G8 count what it delays as excused. 200 seeds of flapping connections and crashes break nothing. (A variant " +
			"that also ignored its own name in a look broke G6, not G8, with seed 44.)"},
	{"gives-up-unasked", "An instance releases what it owns above its quota although nobody who could take it has asked.",
		"Whoever is to have it takes it at once, unless it beats and cannot take; no fault of the plans makes such an instance, and " +
			"the moves around one that is silenced are excused by that fault. 200 seeds break nothing."},
	{"suspect-rule-off", "An instance that let a lease expire under its living heartbeat still counts in the placement.",
		"A needless move later; G7 judges joins and leaves of a fleet at rest, and what moves after an expiry is overlapped by the " +
			"fault that silenced the owner. 200 seeds break nothing."},
	{"sends-past-its-deadline", "The shell hands a request to the client although its deadline has passed (the check in shell.execute " +
		"left out).",
		"Not run, equivalent: the request's context has ended by then, and the client refuses it unsent."},
}
