package core

type discoveryCause uint8

// The causes. TestEveryDiscoveryIsNeeded shows that each is needed.
const (
	discoverStart        discoveryCause = iota // this instance starts
	discoverInterval                           // an interval is over: any message may have been lost
	discoverSubscribed                         // the channel is subscribed again
	discoverSlept                              // this instance did not run for a while, so its view is old
	discoverEpoch                              // Redis lost its data
	discoverHeard                              // a silence is over
	discoverHeardBriefly                       // a short, repeated silence is over: little can have changed
	discoverRejoined                           // this instance is back in the registry
	discoverRecovered                          // stuck work has returned
	discoverLost                               // a placed lease is lost
	discoverChanged                            // a discovery showed other instances or sessions than before
	discoverJoined                             // a notice: an instance joins
	discoverLeft                               // a notice: an instance leaves
	discoverGone                               // a heartbeat is gone
	discoverGoneHeir                           // an instance seems dead that may be the heir of free sessions
	discoverUnknown                            // a notice names an unknown session or owner
	discoverToNobody                           // a lease was released to nobody: its session is gone
	discoverFree                               // a discovery showed a session without an owner
	discoverVanished                           // a lease vanished under a living owner, mostly by a release whose notice was lost
	discoverOvertaken                          // another instance took a free lease that this one wanted
	discoverHeir                               // this instance came too late for a lease that was released to it
	discoverAble                               // acquisitions of this instance are answered again
	discoverCounted                            // the heartbeat is written again: until now others may have placed nothing here
	discoverUnwanted                           // this instance acquired a lease whose session the last discovery did not show
	discoverMissing                            // the session of a held lease is gone, for the first time
	discoverAsked                              // another instance requests leases of this one
	discoverAsking                             // this instance requested leases of others
	discoverBlocked                            // acquisitions are blocked, and will be allowed again

	discoveryCauses
)

type discoveryRule struct {
	share int64                                // within Discovery / share, 0: at once
	when  func(*fleet) (at Time, spread int64) // replaces share
	limit func(*fleet) bool                    // whether the cause leads to a discovery; nil: always
}

// discoveryRules say when each cause leads to a discovery; without a rule it is at once. A discovery is the most expensive request. An
// instance has at most one under way, and after a failure the next one waits for its pace. The causes together limit what an instance
// sends (G14): one discovery an interval, ten while something changes, and one for each cause without a rule.
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

func (f *fleet) starts() {
	f.on = true
	f.discover(discoverStart)
}

func (f *fleet) stops() { f.on, f.next = false, 0 }

// discover plans the next discovery by cause's rule, unless one is due earlier. Each instance adds a small delay that depends on its
// hash, so that one event does not make all instances read at the same instant.
func (f *fleet) discover(cause discoveryCause) {
	r := &discoveryRules[cause]
	if !f.on || r.limit != nil && !r.limit(f) {
		return
	}
	at, spread := f.k.Now(), int64(0)
	switch {
	case r.when != nil:
		at, spread = r.when(f)
	case r.share > 0:
		spread = f.cfg.Discovery / r.share
		at += Time(spread)
	}
	if at <= f.k.Now() {
		f.due = true
		return
	}
	at += Time(int64(f.r.nodes[0].hash%64) * spread / 256)
	if f.next == 0 || at < f.next {
		f.next = at
	}
}

func (f *fleet) seen(changed bool, blocked Time) {
	f.blocked = blocked
	f.touched = f.touched[:0]
	f.dirty = f.dirty || changed
	f.discover(discoverInterval)
	if changed {
		f.discover(discoverChanged)
	}
}

func (f *fleet) intervalOver() {
	f.next = 0
	f.discover(discoverInterval)
	f.due = true
}

func (f *fleet) lookSent(seq uint64) {
	f.due = false
	f.look, f.lookedAt = seq, f.k.Now()
	f.touched = f.touched[:0]
}

// lookEnded ends a discovery. It reports whether that was the last one sent, whose answer counts.
func (f *fleet) lookEnded(seq uint64) bool {
	counts := f.look == seq
	if counts {
		f.look = 0
	}
	return counts
}

func (f *fleet) lookFailed(seq uint64) {
	f.lookEnded(seq)
	f.due = true
}

func (f *fleet) discoveryInterval() int64 {
	return f.cfg.discoveryPause(len(f.sessions.IDs), max(1, len(f.live)))
}

func (f *fleet) afterInterval() (at Time, spread int64) {
	return f.k.Now() + Time(f.discoveryInterval()), 0
}

func (f *fleet) cheaply() (at Time, spread int64) {
	d := f.cfg.cheapPause(f.discoveryInterval(), len(f.known))
	return f.k.Now() + Time(d), d
}

// sinceLast returns now, unless the last discovery is very recent. Otherwise instances that disagree for a while would exchange requests
// and run discoveries at the speed of the network.
func (f *fleet) sinceLast() (at Time, spread int64) {
	if f.lookedAt == 0 {
		return f.k.Now(), 0
	}
	return f.lookedAt + Time(f.cfg.Discovery/50), 0
}

// whenHeard returns now for the first two subscriptions in a tenth of an interval, and the end of that tenth for the others. Otherwise
// a connection that breaks right after each subscription would cause reads at that rate.
func (f *fleet) whenHeard() (at Time, spread int64) {
	if f.hearings.n <= 2 {
		return f.k.Now(), 0
	}
	return f.hearings.from + Time(f.cfg.Discovery/10), 0
}

func (f *fleet) whenUnblocked() (at Time, spread int64) { return f.blocked, f.cfg.Discovery / 10 }

// asksOn reports whether the next discovery, and with it the next requests, may come soon: sessions are missing, and the last five
// attempts or fewer have not changed that.
func (f *fleet) asksOn() bool { return f.missing > 0 && f.asked <= 5 }
