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
	runningPolls
	probes
	allowanceCount
)

// allowances is the table. story names a file of testdata/stories, and how the comment on the story in it begins.
var allowances = [allowanceCount]struct{ of, what, most, why, story string }{
	otherFaults: {
		"all deadlines", "a change that another fault can delay", "that fault's reach (reach.go) and the time to settle; excused above 2 TTL",
		"a promise is about one fault", "g11: Redis stood still until 7 s",
	},
	stalledHost: {
		"all", "whatever the host delays", "as long as the host did not run the harness; a break is unknown if that was a quarter of the time " +
			"since a TTL before it",
		"nobody can act on a host that runs nobody", "g5: The host stalled for 400 ms",
	},
	nobodyThere: {
		"G5, G8, G9, G13, E4", "a change that no instance is there to make", "until one is ready", "the promise needs an instance",
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
		"all deadlines", "an acquisition by an instance that a fault kept from hearing of a failover", "a TTL after that fault",
		"the clocks of two servers may differ by a TTL", "g13: The only other one was stopped when a failover",
	},
	startOfMembers: {
		"E4", "a member of an election that has just started", "a third of a TTL", "a member waits before it takes part",
		"e4: All end before anybody has led",
	},
	deletedKey: {
		"G1, G2, G8, G9, G13, E4", "an owner whose key the plan deleted", "its next renewal and the timeout, or both after a quarantine",
		"an owner learns of it when it renews", "g1: The lease key was deleted by hand",
	},
	hinderedStops: {
		"G13, I6", "leases that a stopped instance did not release, and its heartbeat", "excused", "a fault kept it from Redis",
		"g13: It was cut off when it was asked to stop",
	},
	lateCommands: {
		"G5, E4", "a renewal of the victim that Redis executes after the crash", "the limit counts from it", "it was under way",
		"g5: The victim's last renewal was held back",
	},
	lateBeats: {
		"G5", "a heartbeat of the victim that Redis executes after the crash", "the limit counts from it", "waiters count the victim till then",
		"g5: The victim's last heartbeat was under way",
	},
	deafGrantees: {
		"G5, E4", "a grant to an instance that a fault silences", "the limit counts from it", "the instance never hears of the grant",
		"g5: Redis granted the session to an instance that was cut off",
	},
	renewalsInFlight: {
		"G8", "a gap around a renewal that Redis executed late", "as late as it was", "it prolongs the lease of an owner that polls no more",
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
		"G9", "a request refused for a quarantine on a machine that was suspended", "a TTL after it", "its clock stood still",
		"g9: The clock of a machine that was suspended",
	},
	runningPolls: {
		"G13", "leases of a stopping instance whose polls run", "the poll timeout", "a lease is released after its poll has returned",
		"g13: What it holds it gives back within 250 ms",
	},
	probes: {
		"G13", "an heir that a fault has just left", "a twentieth of a renewal interval, at least 10 ms", "it probes Redis that often",
		"g13: Redis answers again, and who is to have the lease",
	},
}

// allows reports whether the judge tolerates it. A test takes out one at a time.
func (w *world) allows(a allowance) bool { return w.without != a }
