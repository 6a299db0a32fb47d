package core

// pace says how soon a kind of request may be made again after it failed. Every request that is repeated because it failed waits
// here and nowhere else, so that no failure, however quick it is told, is repeated at the speed of the network (G14).
type pace struct {
	failed int  // attempts in a row without the effect they were made for
	at     Time // when the last of them failed
	until  Time // not sent again before
	silent bool // the last of them was not answered
}

// refusal is a Redis that answers and refuses what it is asked to write: READONLY, out of memory, an ACL.
type refusal struct {
	text string // its last words, "" if it refuses nothing
	at   Time   // when it said them
	from Time   // what was said before is not told any more: one entry an interval, and none of what may be over
	told bool
}

// pause is how long to leave a request that failed n times in a row. The first is repeated at once: what it met has often passed
// with it. The cap lets the first lease be had within a renewal interval of when writes are accepted again.
func (c *Core) pause(n int) int64 {
	if n < 2 {
		return 0
	}
	return min(c.cfg.MaxProbe<<min(max(n-6, 0), 16)>>max(6-n, 0), c.cfg.Renew/4)
}

// setback takes note that in had no effect. Attempts that were under way together count as one. A probe has waits of its own, and
// says nothing of whether leases may be read.
func (c *Core) setback(in *inflight, silent bool) {
	p := &c.paces[in.op.Kind]
	if in.op.Sent < p.at || in.probes() {
		return
	}
	p.failed++
	p.at, p.silent = c.now.Mono, silent
	p.until = c.now.Mono + Time(c.pause(p.failed))
	c.slowed = max(c.slowed, p.until)
}

// resume lets what went unanswered of a release or a leave be sent at once: Redis answers again, and somebody waits for what that gives
// back. It may fail again no sooner than before.
func (c *Core) resume() {
	for _, kind := range []OpKind{OpRelease, OpLeave} {
		if p := &c.paces[kind]; p.silent {
			p.until = 0
		}
	}
}

// effective takes note that a request of kind had its effect.
func (c *Core) effective(kind OpKind) {
	if kind == OpBeat && c.paces[kind].failed > 0 { // until now the others may have counted it out, and given it nothing it asked for
		c.fleet.countedAgain()
	}
	c.paces[kind] = pace{}
	if c.refusal.text == "" || c.fails() {
		return
	}
	if c.refusal.told {
		c.tell(Tell{Kind: TellAccepting, Text: c.refusal.text})
	}
	c.refusal = refusal{}
}

// fails reports whether a request to write failed and has not succeeded since, of any kind that is still made: whatever is
// repeated is repeated within an interval.
func (c *Core) fails() bool {
	for k := range c.paces {
		if p := &c.paces[k]; p.failed > 0 && OpKind(k).writes() && c.now.Mono-p.at < Time(c.cfg.Renew) {
			return true
		}
	}
	return false
}

// paced reports whether a request of kind has to wait.
func (c *Core) paced(kind OpKind) bool { return c.paces[kind].until > c.now.Mono }

// refusedBy keeps Redis' words. They are told when a read was answered: until then it may be that nothing is.
func (c *Core) refusedBy(in *inflight, a *Answer) {
	if a.Failure == FailRefused && a.Epoch == "" && in.op.Kind.writes() { // with an epoch it is this instance that does not believe it
		c.refusal.text, c.refusal.at = a.Text, c.now.Mono
	}
}

// tellRefusing tells of a refusal, with its time, and once in a renewal interval as long as there are more.
func (c *Core) tellRefusing() {
	if r := &c.refusal; r.text != "" && r.at >= r.from {
		r.told, r.from = true, max(c.nextRenew, r.at+1)
		c.tell(Tell{Kind: TellRefusing, Text: r.text})
		c.eff.Tells[len(c.eff.Tells)-1].At = r.at
	}
}
