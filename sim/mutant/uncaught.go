package mutant

// uncaught are mutants that were tried, and why no guarantee catches them.
var uncaught = []Uncaught{
	{"sends-past-its-deadline", "The shell hands a request to the client although its deadline has passed (the check in shell.execute " +
		"left out).",
		"Not run, equivalent: the request's context has ended by then, and the client refuses it unsent."},
	{"acquire-without-epoch", "An acquisition is executed for who has not heard that Redis lost its data.",
		"Survives 500 seeds, equivalent: the quarantine refuses it whoever asks, and after that what it takes is free."},
	{"release-without-epoch", "A release is executed for who has not heard that Redis lost its data.",
		"Survives 500 seeds, equivalent: it deletes the key of its own term under its own fence, which is over for who sends it."},
	{"reassert-without-epoch", "An assertion is executed in an epoch that follows the one it was sent in.",
		"Survives 500 seeds, equivalent: it does not replace a higher fence, whoever has one replaces it, and nothing else is granted " +
			"within that quarantine either."},
	{"stop-is-forgotten", "A stop that a worker is told of when it writes RUNNING is forgotten.",
		"Open: its mark is not seen in 500 seeds of intents, nor in TestAnyOrder: no storm asks for a stop in just that moment."},
	{"no-slot-is-busy", "A start that finds no tuner slot is told that its service is in use.",
		"Open: it ran, and survives 500 seeds: I5 holds a refusal against what is in use, and not its reason. The other way round " +
			"it is caught (busy-is-no-slot)."},
	{"retry-a-fifth-late", "What a worker tries again it tries a fifth later.",
		"Survives 500 seeds, equivalent: no promise names that wait."},
	{"halts-at-the-last-moment", "A pipeline is asked to end when its leases end, and not a grace before.",
		"Open: it ran, and survives 500 seeds and TestAnyOrder."},
}
