package mutant

// uncaught are mutants that were tried, and why no guarantee catches them.
var uncaught = []Uncaught{
	{"sends-past-its-deadline", "The shell hands a request to the client although its deadline has passed (the check in shell.execute " +
		"left out).",
		"Not run, equivalent: the request's context has ended by then, and the client refuses it unsent."},
}
