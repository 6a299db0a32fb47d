package core

// discoveryCause is why an instance looks at everything (OpLook).
type discoveryCause uint8

// The causes, in the order of discoveryRules.
const (
	discoverStart discoveryCause = iota
	discoverInterval
	discoverSubscribed
	discoverSlept
	discoverEpoch
	discoverHeard
	discoverHeardBriefly
	discoverRejoined
	discoverRecovered
	discoverLost
	discoverChanged
	discoverJoined
	discoverLeft
	discoverGone
	discoverGoneHeir
	discoverUnknown
	discoverToNobody
	discoverFree
	discoverVanished
	discoverOvertaken
	discoverHeir
	discoverAble
	discoverCounted
	discoverUnwanted
	discoverMissing
	discoverAsked
	discoverAsking
	discoverBlocked

	discoveryCauses
)

// discoveryRule says when a cause has an instance look.
type discoveryRule struct {
	cause     string
	share     int64                                // within Discovery / share, 0: at once
	when      func(*fleet) (at Time, spread int64) // in place of share
	limit     func(*fleet) bool                    // nil: whenever the cause comes about
	guarantee string                               // that fails, or comes late, without it
	story     string                               // of testdata/stories that comes out otherwise without it
}

// discoveryRules is all there is to say of when an instance looks. Looks are the dearest thing that it sends: it has one under
// way at most, those that fail wait for their pace, and every cause is an event that somebody else pays for, an answer of its own
// or the interval. So what an instance may send (G14) is the sum of the rows: a look an interval, ten an interval while something
// changes, and one for each event that is looked at once.
var discoveryRules = [discoveryCauses]discoveryRule{
	discoverStart: {
		cause:     "it begins",
		guarantee: "G6", story: "join.txt"},
	discoverInterval: {
		cause: "an interval is over: every message may have been lost",
		when:  (*fleet).afterInterval, guarantee: "G6", story: "crash.txt"},
	discoverSubscribed: {
		cause: "the channel is heard again",
		when:  (*fleet).whenHeard, guarantee: "G6", story: "discovery.txt"},
	discoverSlept: {
		cause:     "it did not run for a while: what it knows is old",
		guarantee: "G5", story: "discovery.txt"},
	discoverEpoch: {
		cause:     "Redis lost its data",
		guarantee: "G9", story: "forgets.txt"},
	discoverHeard: {
		cause:     "a silence is over",
		guarantee: "G8", story: "late.txt"},
	discoverHeardBriefly: {
		cause: "a silence is over that was short and not the first: what is repeated fails at once, and there is nothing new to see",
		share: 10, guarantee: "G14", story: "discovery.txt"},
	discoverRejoined: {
		cause:     "it is back in the registry",
		guarantee: "G6", story: "refused.txt"},
	discoverRecovered: {
		cause:     "work that was stuck has returned",
		guarantee: "G8", story: "discovery.txt"},
	discoverLost: {
		cause:     "a placed lease is lost",
		guarantee: "G6", story: "discovery.txt"},
	discoverChanged: {
		cause: "a look showed other instances or sessions than before",
		share: 10, guarantee: "G6", story: "asked.txt"},
	discoverJoined: {
		cause: "an instance says that it joins",
		share: 10, guarantee: "G6", story: "discovery.txt"},
	discoverLeft: {
		cause: "an instance says that it leaves",
		share: 10, guarantee: "G13", story: "discovery.txt"},
	discoverGone: {
		cause: "a heartbeat is gone",
		share: 10, guarantee: "G5", story: "discovery.txt"},
	discoverGoneHeir: {
		cause:     "an instance seems dead to which free sessions may have been left",
		guarantee: "G5", story: "crash.txt"},
	discoverUnknown: {
		cause: "a notice names a session, or an owner, that was not seen yet",
		share: 100, guarantee: "G6", story: "waiting.txt"},
	discoverToNobody: {
		cause: "a lease was released to nobody: its session went, which is yet to be seen",
		share: 100, guarantee: "G8", story: "refused.txt"},
	discoverFree: {
		cause: "a look showed a session that nobody owns",
		share: 10, guarantee: "G5", story: "waiting.txt"},
	discoverVanished: {
		cause: "a lease vanished under a living owner, who is asked: mostly it was a release that was not heard",
		share: 60, guarantee: "G5", story: "discovery.txt"},
	discoverOvertaken: {
		cause: "another took what was free for this one, and leaves it what is free still",
		when:  (*fleet).cheaply, guarantee: "G5", story: "join.txt"},
	discoverHeir: {
		cause: "it came too late for what it was to have: something else will be given",
		share: 10, guarantee: "G6", story: "discovery.txt"},
	discoverAble: {
		cause: "it can take leases again, and had asked for one only to see whether it could",
		share: 10, guarantee: "G6", story: "discovery.txt"},
	discoverCounted: {
		cause: "its heartbeat is written again: until now the others may have counted it out, and given it nothing",
		share: 10, guarantee: "G6", story: "refused.txt"},
	discoverUnwanted: {
		cause: "it won a lease whose session was not there at the last look",
		share: 10, guarantee: "G8", story: "unwanted.txt"},
	discoverMissing: {
		cause: "the session of a held lease is gone, for the first time",
		share: 10, guarantee: "G8", story: "unwanted.txt"},
	discoverAsked: {
		cause: "another asks for what this one has",
		when:  (*fleet).sinceLast, guarantee: "G6", story: "join.txt"},
	discoverAsking: {
		cause: "it asked others for what it lacks",
		share: 10, limit: (*fleet).asksOn, guarantee: "G6", story: "discovery.txt"},
	discoverBlocked: {
		cause: "it could take nothing, and can when this is over",
		when:  (*fleet).whenUnblocked, guarantee: "G6", story: "blocked.txt"},
}

// starts has the fleet looked at from here on, stops until here.
func (f *fleet) starts() {
	f.on = true
	f.discover(discoverStart)
}

func (f *fleet) stops() { f.on, f.next = false, 0 }

// discover makes the next look happen when cause's rule says, if none is due before. Instances that were moved by the same event
// are spread a little, each by its own hash, so that they do not all read at the same instant.
func (f *fleet) discover(cause discoveryCause) {
	r := &discoveryRules[cause]
	if !f.on || r.limit != nil && !r.limit(f) {
		return
	}
	at, spread := f.k.now.Mono, int64(0)
	switch {
	case r.when != nil:
		at, spread = r.when(f)
	case r.share > 0:
		spread = f.k.cfg.Discovery / r.share
		at += Time(spread)
	}
	if at <= f.k.now.Mono {
		f.due = true
		return
	}
	at += Time(int64(f.r.nodes[0].hash%64) * spread / 256)
	if f.next == 0 || at < f.next {
		f.next = at
	}
}

// seen takes note of an answered look: the next is an interval later, or sooner if something changed.
func (f *fleet) seen(changed bool, blocked Time) {
	f.blocked = blocked
	f.touched = f.touched[:0]
	f.dirty = f.dirty || changed
	f.discover(discoverInterval)
	if changed {
		f.discover(discoverChanged)
	}
}

// intervalOver has a look made, and the next one an interval later.
func (f *fleet) intervalOver() {
	f.next = 0
	f.discover(discoverInterval)
	f.due = true
}

// lookSent takes note of the look under way.
func (f *fleet) lookSent(seq uint64) {
	f.due = false
	f.look, f.lookedAt = seq, f.k.now.Mono
	f.touched = f.touched[:0]
}

// lookEnded takes note that a look is under way no longer. It reports whether it was the last that was sent, whose answer counts.
func (f *fleet) lookEnded(seq uint64) bool {
	counts := f.look == seq
	if counts {
		f.look = 0
	}
	return counts
}

// lookFailed has a look made again in place of one that will not be answered.
func (f *fleet) lookFailed(seq uint64) {
	f.lookEnded(seq)
	f.due = true
}

// discoveryInterval is Discovery, stretched where all instances' looks together would read more than LookBudget keys a second.
func (f *fleet) discoveryInterval() int64 {
	keys := int64(len(f.sessions.IDs)) * int64(max(1, len(f.live)))
	return max(f.k.cfg.Discovery, keys*Second/f.k.cfg.LookBudget)
}

func (f *fleet) afterInterval() (at Time, spread int64) {
	return f.k.now.Mono + Time(f.discoveryInterval()), 0
}

// cheaply is at once, where that is cheap: with 1,000 sessions, no sooner than the look that what is free asks for anyway.
func (f *fleet) cheaply() (at Time, spread int64) {
	d := max(f.discoveryInterval()/100, f.k.cfg.Discovery/10_000*int64(len(f.known)))
	return f.k.now.Mono + Time(d), d
}

// sinceLast is at once if the last look is not very recent: instances that disagree for a while must not drive each other to ask
// and look at the speed of the network.
func (f *fleet) sinceLast() (at Time, spread int64) {
	if f.lookedAt == 0 {
		return f.k.now.Mono, 0
	}
	return f.lookedAt + Time(f.k.cfg.Discovery/50), 0
}

// whenHeard is at once twice in a tenth of the interval, and else when that is over: a connection that is ended as soon as it hears the
// channel must not have it look, or read what it waits for, as often as it is made.
func (f *fleet) whenHeard() (at Time, spread int64) {
	if f.hearings.n <= 2 {
		return f.k.now.Mono, 0
	}
	return f.hearings.from + Time(f.k.cfg.Discovery/10), 0
}

func (f *fleet) whenUnblocked() (at Time, spread int64) { return f.blocked, f.k.cfg.Discovery / 10 }

// asksOn lets the next look, and with it the next asking, come soon while something is missing; not for ever where nobody gives.
func (f *fleet) asksOn() bool { return f.missing > 0 && f.asked <= 5 }
