package core

// pace delays requests of one kind after failures. It is the only delay of failed requests, so that a failure, however quickly Redis
// reports it, is not repeated at the speed of the network (G14).
type pace struct {
	failed int  // attempts in a row without effect
	at     Time // when the last of them failed
	until  Time // when the next may be sent
	silent bool // the last of them was not answered
}

// refusal records that Redis answers but refuses writes: READONLY, out of memory, an ACL.
type refusal struct {
	text string // its last error, "" if it refuses nothing
	at   Time   // when that error came
	from Time   // earlier errors are not reported: at most one in a renewal interval, and none that may be over
	told bool
}

// setback records that in had no effect. Failures of attempts that were under way together count as one. Probes have a pace of their own
// (probeLater), and their failure must not delay reads of leases.
func (c *Core) setback(in *inflight, silent bool) {
	p := &c.paces[in.op.Kind]
	if in.op.Sent < p.at || in.probes() {
		return
	}
	p.failed++
	p.at, p.silent = c.k.Now(), silent
	p.until = c.k.Now() + Time(c.pause.Retry(p.failed))
	c.slowed = max(c.slowed, p.until)
}

// resume lets unanswered releases and leaves be repeated at once when Redis answers again, because others wait for those leases. It keeps
// the count of failures, so that the pauses stay as long.
func (c *Core) resume() {
	for _, kind := range []OpKind{OpRelease, OpLeave} {
		if p := &c.paces[kind]; p.silent {
			p.until = 0
		}
	}
}

func (c *Core) effective(kind OpKind) {
	if kind == OpBeat && c.paces[kind].failed > 0 { // without a heartbeat, the others may have released nothing to it
		c.table.CountedAgain()
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

// fails reports whether a write of any kind has failed within the last renewal interval and has not succeeded since. Older failures are
// of requests that are no longer repeated.
func (c *Core) fails() bool {
	for k := range c.paces {
		if p := &c.paces[k]; p.failed > 0 && OpKind(k).Writes() && c.k.Now()-p.at < Time(c.cfg.Renew) {
			return true
		}
	}
	return false
}

func (c *Core) paced(kind OpKind) bool { return c.paces[kind].until > c.k.Now() }

// refusedBy keeps the error of a refused write. tellRefusing reports it once a read is answered; until then, Redis may refuse everything.
func (c *Core) refusedBy(in *inflight, a *Answer) {
	if a.Failure == FailRefused && a.Epoch == "" && in.op.Kind.Writes() { // with an epoch, it is reject that refused
		c.refusal.text, c.refusal.at = a.Text, c.k.Now()
	}
}

// tellRefusing reports a refusal with its own time, and repeats that once in a renewal interval while refusals go on.
func (c *Core) tellRefusing() {
	if r := &c.refusal; r.text != "" && r.at >= r.from {
		r.told, r.from = true, max(c.nextRenew, r.at+1)
		c.tell(Tell{Kind: TellRefusing, Text: r.text})
		c.eff.Tells[len(c.eff.Tells)-1].At = r.at
	}
}

// Blocked returns until when nothing may be acquired, and why; 0 if it may.
func (c *Core) Blocked() (Time, Cause) {
	until, cause := c.k.Blocked()
	if cause == CauseNone && c.paced(OpAcquire) {
		return c.paces[OpAcquire].until, CauseFailed
	}
	return until, cause
}
