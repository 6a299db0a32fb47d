package place

import (
	"github.com/leasestorm/leasestorm/internal/term"
)

// Cause is a reason for a discovery.
type Cause uint8

// The causes. TestEveryDiscoveryIsNeeded shows that each is needed.
const (
	DiscoverStart      Cause = iota // this instance starts
	DiscoverSubscribed              // the channel is subscribed again
	DiscoverEpoch                   // Redis lost its data
	DiscoverHeard                   // a silence is over
	DiscoverRejoined                // this instance is back in the registry
	DiscoverRecovered               // stuck work has returned
	DiscoverLost                    // a placed lease is lost
	DiscoverChanged                 // a discovery showed other instances or sessions than before
	DiscoverJoined                  // a notice: an instance joins
	DiscoverLeft                    // a notice: an instance leaves
	DiscoverGone                    // a heartbeat is gone
	DiscoverGoneHeir                // an instance seems dead that may be the heir of free sessions
	DiscoverUnknown                 // a notice names an unknown session or owner
	DiscoverToNobody                // a lease was released to nobody: its session is gone
	DiscoverFree                    // a discovery showed a session without an owner
	DiscoverVanished                // a lease vanished under a living owner, mostly by a release whose notice was lost
	DiscoverOvertaken               // another instance took a free lease that this one wanted
	DiscoverHeir                    // this instance came too late for a lease that was released to it
	DiscoverAble                    // acquisitions of this instance are answered again
	DiscoverCounted                 // the heartbeat is written again: until now others may have placed nothing here
	DiscoverUnwanted                // this instance acquired a lease whose session the last discovery did not show
	DiscoverMissing                 // the session of a held lease is gone, for the first time
	DiscoverAsked                   // another instance requests leases of this one
	DiscoverAsking                  // this instance requested leases of others
	DiscoverBlocked                 // acquisitions are blocked, and will be allowed again

	Causes // number of causes
)

// Rule says when a cause leads to a discovery.
type Rule struct {
	All   bool                    // the discovery reads everything, also if no notice was missed
	Share int64                   // within Discovery / share, 0: at once
	Apart int64                   // without a share: at once, but Discovery / apart after the last one for this cause
	Limit func(*Discoveries) bool // whether the cause leads to a discovery; nil: always
}

// Rules say when each cause leads to a discovery; without a rule it is at once. An interval after the last one, another follows. An
// instance has at most one under way, and after a failure the next one waits for its pace. The causes together limit what an instance
// sends (G14): one discovery an interval, ten while something changes, and one for each cause without a rule.
var Rules = [Causes]Rule{
	DiscoverStart:      {All: true},
	DiscoverSubscribed: {Apart: 10},
	DiscoverHeard:      {Apart: 10},
	DiscoverChanged:    {Share: 10},
	DiscoverJoined:     {Share: 10},
	DiscoverLeft:       {Share: 10},
	DiscoverGone:       {Share: 10},
	DiscoverUnknown:    {All: true, Share: 100},
	DiscoverToNobody:   {All: true, Share: 100},
	DiscoverFree:       {Share: 10},
	DiscoverVanished:   {All: true, Share: 60},
	DiscoverOvertaken:  {Share: 100},
	DiscoverHeir:       {Share: 10},
	DiscoverAble:       {Share: 10},
	DiscoverCounted:    {Share: 10},
	DiscoverUnwanted:   {All: true, Share: 10},
	DiscoverMissing:    {All: true, Share: 10},
	DiscoverAsked:      {Apart: 50}, // or instances that disagree would exchange requests at the speed of the network
	DiscoverAsking:     {Share: 10, Limit: (*Discoveries).asksOn},
	DiscoverBlocked:    {All: true, Share: 10}, // once they are allowed
}

// Discoveries decide when this instance runs a discovery.
type Discoveries struct {
	readings
	hash uint64 // of this instance

	on      bool              // discoveries are on
	first   term.Time         // the first discovery is not sent before, see core.Config.StartDelay
	next    term.Time         // when the next discovery is due
	due     bool              // a discovery is to be sent
	look    uint64            // the discovery under way, 0 none
	blocked term.Time         // as of the last discovery, nothing may be acquired before; 0 if allowed
	missing int               // sessions to ask others for, at the last discovery
	last    [Causes]term.Time // when those causes led to a discovery that are to be apart
	asked   int               // discoveries in a row with the same missing
}

// Next returns when the next discovery is due; 0: no time is set.
func (d *Discoveries) Next() term.Time {
	if d.next != 0 && d.next < d.again || d.again == 0 {
		return d.next
	}
	return d.again
}

// Due reports whether a discovery is to be sent.
func (d *Discoveries) Due() bool { return d.due }

// Blocked returns until when nothing may be acquired, as of the last discovery; 0 if it may.
func (d *Discoveries) Blocked() term.Time { return d.blocked }

// UnderWay returns the discovery under way, 0 for none.
func (d *Discoveries) UnderWay() uint64 { return d.look }

// Start begins discoveries.
func (d *Discoveries) Start() {
	d.on, d.first = true, d.k.Now()+term.Time(d.cfg.StartDelay)
	d.Discover(DiscoverStart)
}

// Stop ends them.
func (d *Discoveries) Stop() { d.on, d.next, d.again = false, 0, 0 }

// Discover plans the next discovery by cause's rule, unless one is due earlier. Each instance adds a small delay that depends on its
// hash, so that one event does not make all instances read at the same instant.
func (d *Discoveries) Discover(cause Cause) {
	r := &Rules[cause]
	if !d.on || r.Limit != nil && !r.Limit(d) || d.last[cause] > d.k.Now() { // the last: it is planned
		return
	}
	d.all = d.all || r.All
	at, spread := max(d.k.Now(), d.first), int64(0)
	switch {
	case r.Share > 0:
		spread = d.cfg.Discovery / r.Share
		at += term.Time(spread)
		if cause == DiscoverBlocked {
			at = d.blocked
		}
	case r.Apart > 0:
		if last := d.last[cause]; last != 0 {
			at = max(at, last+term.Time(d.cfg.Discovery/r.Apart))
		}
		d.last[cause] = at
	}
	if at <= d.k.Now() {
		d.due = true
		return
	}
	at += term.Time(int64(d.hash%64) * spread / 256)
	if d.next == 0 || at < d.next {
		d.next = at
	}
}

// IntervalOver is called when the next discovery is due.
func (d *Discoveries) IntervalOver() {
	now := d.k.Now()
	if d.next != 0 && d.next <= now {
		d.next, d.due = 0, true
	}
	if d.again <= now {
		d.again = now + term.Time(d.cfg.Discovery) // the answer changes this
		d.due = d.due || d.look == 0
	}
}

// LookEnded ends a discovery. It reports whether that was the last one sent, whose answer counts.
func (d *Discoveries) LookEnded(seq uint64) bool {
	counts := d.look == seq
	if counts {
		d.look = 0
	}
	return counts
}

// LookFailed plans a repetition of a discovery that had no result.
func (d *Discoveries) LookFailed(seq uint64) {
	d.due = d.LookEnded(seq) || d.due
}

// Subscribed records that the channel is subscribed again, and plans a discovery.
func (d *Discoveries) Subscribed() {
	d.deaf = true
	d.Discover(DiscoverSubscribed)
}

// asksOn reports whether the next discovery, and with it the next requests, may come soon: this instance lacks sessions, and at
// most five attempts in a row have not changed that.
func (d *Discoveries) asksOn() bool { return d.missing > 0 && d.asked <= 5 }

func (d *Discoveries) askAgain(missing int) {
	if missing != d.missing {
		d.missing, d.asked = missing, 0
	}
	d.asked++
	d.Discover(DiscoverAsking)
}

// CountedAgain restarts the requests of this instance, because the other instances may not have counted it until now.
func (d *Discoveries) CountedAgain() {
	d.asked = 0
	d.Discover(DiscoverCounted)
}

// tenth counts events within a tenth of the discovery interval.
type tenth struct {
	from term.Time
	n    int
}

// add adds n and returns the count of the current tenth.
func (t *tenth) add(now term.Time, discovery int64, n int) int {
	if now-t.from >= term.Time(discovery/10) {
		*t = tenth{from: now}
	}
	t.n += n
	return t.n
}
