package core

// discoveryCause is why an instance looks at everything (OpLook).
type discoveryCause uint8

// The causes. Without any of them a story comes out otherwise (TestEveryDiscoveryIsNeeded).
const (
	discoverStart        discoveryCause = iota // this instance starts
	discoverInterval                           // an interval is over: any message may have been lost
	discoverSubscribed                         // the channel is heard again
	discoverSlept                              // this instance did not run for a while, so its view is old
	discoverEpoch                              // Redis lost its data
	discoverHeard                              // a silence is over
	discoverHeardBriefly                       // a short silence, and not the first, is over: there is nothing new to see
	discoverRejoined                           // this instance is back in the registry
	discoverRecovered                          // stuck work has returned
	discoverLost                               // a placed lease is lost
	discoverChanged                            // a look showed other instances or sessions than before
	discoverJoined                             // an instance says that it joins
	discoverLeft                               // an instance says that it leaves
	discoverGone                               // a heartbeat is gone
	discoverGoneHeir                           // an instance seems dead that may be the heir of free sessions
	discoverUnknown                            // a notice names an unknown session or owner
	discoverToNobody                           // a lease was released to nobody: its session is gone
	discoverFree                               // a look showed a session without an owner
	discoverVanished                           // a lease vanished under a living owner, mostly by a release that went unheard
	discoverOvertaken                          // another instance took a free lease that this one wanted
	discoverHeir                               // this instance came too late for a lease that was released to it
	discoverAble                               // this instance can take leases again
	discoverCounted                            // the heartbeat is written again: until now others may have placed nothing here
	discoverUnwanted                           // this instance won a lease whose session the last look did not show
	discoverMissing                            // the session of a held lease is gone, for the first time
	discoverAsked                              // another instance asks for leases of this one
	discoverAsking                             // this instance asked others for leases
	discoverBlocked                            // acquisition was blocked, and will be allowed again

	discoveryCauses
)

// discoveryRule says when a cause has an instance look.
type discoveryRule struct {
	share int64                                // within Discovery / share, 0: at once
	when  func(*fleet) (at Time, spread int64) // in place of share
	limit func(*fleet) bool                    // nil: whenever the cause comes about
}

// discoveryRules say when an instance looks; a cause without a rule has it look at once. A look is the dearest request of all. An
// instance has at most one under way, and a look that failed waits for its pace. What an instance may send (G14) is the sum of the
// causes: one look an interval, ten an interval while something changes, and one for each cause without a rule.
var discoveryRules = [discoveryCauses]discoveryRule{
	discoverInterval:     {when: (*fleet).afterInterval},
	discoverSubscribed:   {when: (*fleet).whenHeard},
	discoverHeardBriefly: {share: 10},
	discoverChanged:      {share: 10},
	discoverJoined:       {share: 10},
	discoverLeft:         {share: 10},
	discoverGone:         {share: 10},
	discoverUnknown:      {share: 100},
	discoverToNobody:     {share: 100},
	discoverFree:         {share: 10},
	discoverVanished:     {share: 60},
	discoverOvertaken:    {when: (*fleet).cheaply},
	discoverHeir:         {share: 10},
	discoverAble:         {share: 10},
	discoverCounted:      {share: 10},
	discoverUnwanted:     {share: 10},
	discoverMissing:      {share: 10},
	discoverAsked:        {when: (*fleet).sinceLast},
	discoverAsking:       {share: 10, limit: (*fleet).asksOn},
	discoverBlocked:      {when: (*fleet).whenUnblocked},
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
