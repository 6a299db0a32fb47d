package check

// allowance is something that a guarantee tolerates beyond its promise. Each has a row in the table below, and a story whose verdict
// changes without it. docs/allowances.md is this table.
type allowance uint8

const (
	_ allowance = iota
	otherFaults
	stalledHost
	nobodyThere
	leavings
	lateQuarantine
	missedFailovers
	startOfMembers
	deletedKey
	hinderedStops
	lateCommands
	lateBeats
	deafGrantees
	renewalsInFlight
	lostLeases
	coldStarts
	suspensions
	handovers
	runningPolls
	probes
	lateEvents
	lateStamps
	thaws
	frozenSenders
	hungUps
	lateReports
	lostMessages
	heldBack
	replicaCopies
	lostSessions
	redeliveries
	otherMasters
	slowSlots
	heldPolls
	newLeaders
	allowanceCount
)

// allowances is the table. story names a file of testdata/stories, and the beginning of the story's comment in that file.
var allowances = [allowanceCount]struct{ of, what, most, why, story string }{
	otherFaults: {
		"all deadlines", "a change that another fault can delay", "that fault's reach and the time to settle; excused above 2 TTL",
		"a promise is about one fault", "g11: Redis stood still until 7 s",
	},
	stalledHost: {
		"all", "a delay of the host", "the time in which the host did not run the harness; if that is a quarter of the time from a TTL " +
			"before a break to its end, the break is unknown",
		"a process cannot act while its host does not run it", "g5: The host stalled for 400 ms",
	},
	nobodyThere: {
		"G5, G8, G9, G13, E4", "a change while no instance is ready", "until one is ready", "the promise needs an instance",
		"g5: Everybody crashes",
	},
	leavings: {
		"G5, G9, G13, E4", "a lease that an instance left behind without knowing of it", "until Redis drops it, and the time to settle",
		"nobody can acquire it before", "g9: Redis had granted it to who was cut off",
	},
	lateQuarantine: {
		"G9", "a quarantine that begins late, because faults kept all instances from Redis", "from its first script",
		"the first script that sees a loss begins the quarantine", "g9: Nobody heard of the loss before a fault had ended",
	},
	missedFailovers: {
		"all deadlines", "an acquisition by an instance that a fault kept from noticing a failover", "a TTL after that fault",
		"the clocks of two servers may differ by a TTL", "g13: The only other one was stopped when a failover",
	},
	startOfMembers: {
		"G5, G13, E4", "an instance that has just started", "a tenth of the discovery interval; a third of a TTL in an election",
		"it waits for those that start with it",
		"e4: All end before anybody has led",
	},
	deletedKey: {
		"G1, G2, G8, G9, G13, E4", "an owner whose key the plan deleted", "its next renewal and the timeout, or both after a quarantine",
		"an owner learns of it when it renews", "g1: The lease key was deleted by hand",
	},
	hinderedStops: {
		"G10, G13, I5, I6", "leases that a stopped instance did not release, and its heartbeat", "excused", "a fault kept it from Redis",
		"g13: It was cut off when it was asked to stop",
	},
	lateCommands: {
		"G5, E4", "a renewal of the victim that Redis executes after the crash", "the limit counts from it", "it was under way",
		"g5: The victim's last renewal was held back",
	},
	lateBeats: {
		"G5", "a heartbeat of the victim that Redis executes after the crash", "the limit counts from it",
		"until then, others take the victim for alive",
		"g5: The victim's last heartbeat was under way",
	},
	deafGrantees: {
		"G5, E4", "a grant to an instance that a fault silences", "the limit counts from it", "the instance never hears of the grant",
		"g5: Redis granted the session to an instance that was cut off",
	},
	renewalsInFlight: {
		"G8", "a gap around a renewal that Redis executed late", "the delay of the renewal",
		"it prolongs the lease of an owner that no longer polls",
		"g8: A narrow path",
	},
	lostLeases: {
		"G8", "a session that returns while Redis holds a lease that its owner lost", "until that lease ends", "nobody can acquire it before",
		"g8: A session comes back while Redis holds the lease",
	},
	coldStarts: {
		"G8", "a session that existed before the storm and was never polled", "its first poll", "the fleet has just started",
		"g8: A crash: polled again within",
	},
	suspensions: {
		"G9", "a quarantine, for an instance on a machine that was suspended", "a TTL after the suspension", "its clock stood still",
		"g9: The clock of a machine that was suspended",
	},
	handovers: {
		"G9", "a lease that its owner gave up before it learned that Redis had lost its data",
		"the quarantine, if it gave the lease up within the timeout of a request",
		"nobody can acquire it before", "g9: Given up when Redis had just lost its data",
	},
	runningPolls: {
		"G13", "leases of a stopping instance whose polls run", "the poll timeout", "a lease is released after its poll has returned",
		"g13: What it holds it gives back within 250 ms",
	},
	probes: {
		"G13", "an heir whose fault has just ended", "a twentieth of a renewal interval, at least 10 ms", "it probes Redis that often",
		"g13: Redis answers again, and who is to have the lease",
	},
	lateEvents: {
		"G1, G2, G10, G12, I2, I4", "an effect that another observer records late, such as Redis' stream", "250 ms",
		"two processes stamp the two events", "g1: Stamped before the send, and told by Redis",
	},
	lateStamps: {
		"G4, E5, E6", "a consequence that the same process stamps late", "5 ms", "a check and its stamp are two steps",
		"said: Who has said that it gave its lease back polls no more",
	},
	thaws: {
		"G4, E5, E6", "an action of a process that has just been thawed", "100 ms after the thaw", "it cannot know yet that it slept",
		"g4: The process was frozen between its check and its stamp",
	},
	frozenSenders: {
		"G2, I1", "a poll or a pipeline of a process that was frozen", "250 ms after the thaw; counted apart",
		"a freeze holds back a request that was sent in time", "g2: Its process was frozen while the target served it",
	},
	hungUps: {
		"G2", "a poll that the target still serves after its client cancelled it", "250 ms", "the target notices the cancellation a moment later",
		"g2: The client of the first had hung up",
	},
	lateReports: {
		"G3", "a term that is reported after the next one, if the plan deleted its key", "a TTL after the deletion",
		"Redis granted them in order", "e3: Granted, then its key deleted by hand",
	},
	lostMessages: {
		"G3, G10, G12", "a missing message of a process that was killed, or did not report its stop",
		"of its log: one for each lease, and 16", "the last messages are lost with their process", "g10: Its last words went with a process",
	},
	heldBack: {
		"G10", "a renewal that Redis executes long after it was sent", "2 TTL, or twice as long as the fault that held it back",
		"a kernel resends after pauses that double", "g10: What a kernel sends again",
	},
	replicaCopies: {
		"G10", "an assertion over a lease that only an older copy of the data has", "a quarantine", "the owner has the higher fence",
		"g10: A replica takes over with an older copy",
	},
	lostSessions: {
		"I2, I3, I5", "a session that Redis may have lost", "not due", "nobody can know of it", "i3: Redis lost its data: nobody can know",
	},
	redeliveries: {
		"I3", "a session that was accepted before a loss of data or a failover", "a TTL", "it is delivered again",
		"i3: A failover to an older copy: there nobody ran",
	},
	otherMasters: {
		"I2, I3", "the answers of an API, and the pipelines of a worker, that a deposed master serves", "not judged",
		"the promise bounds what the present master serves", "intentservers: One that an API accepts at an old master",
	},
	slowSlots: {
		"I5", "a tuner slot that its worker lost", "50 ms", "the worker must hear that its pipeline has stopped",
		"i5: It hears 50 ms later at most",
	},
	heldPolls: {
		"G6", "a lease that its owner does not give away while its poll hangs", "the poll timeout", "it waits for the poll",
		"g6: Its poll hangs, so it is given away later",
	},
	newLeaders: {
		"E6", "a member that names another leader", "0.6 TTL after the leader's election", "it reads the leader key that often",
		"e6: It was elected so late",
	},
}
