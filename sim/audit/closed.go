package audit

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/audit/logs"
	"github.com/leasestorm/leasestorm/sim/check"
)

// grace is how long a process may take after a freeze to do its overdue work.
const grace = int64(100 * time.Millisecond)

// closed judges that an owner that runs says how each renewal went, and begins no poll without trust (G4).
type closed struct {
	finding
	p *limits
}

// polls judges the beginning of a poll.
func (c *closed) polls(i *instance, l *lease, at int64) {
	t := i.open[l]
	b := during(l, at, at)
	if t != nil {
		if !t.doubt || at <= t.failed+grace {
			return
		}
		b = during(l, at, at, t)
	}
	c.exercised++
	c.lacks(b, 1, "%s began a poll of %s at %s without trust in its lease", i.id, l.name, stamp(at))
}

// again is how long a process that was frozen may take to send the overdue renewal, and to log that it failed.
func (c *closed) again() int64 { return int64(c.p.RenewTimeout*101/100) + grace }

// expired judges a term that expired. If its process ran when the answer to the next renewal was overdue, and the window ended later than
// again, it must have logged that this renewal failed.
func (c *closed) expired(t *term, e *logs.Entry) {
	if e.Reason != "expired" || e.Until == 0 || t.doubt || t.judged || t.inst.renewals == 0 || e.At > e.Until+grace {
		return
	}
	due := e.Until - t.ttl + c.p.margin + int64(c.p.Renew+c.p.RenewTimeout)
	if ran := t.inst.before; ran >= due && ran < e.At-c.again() {
		c.exercised++
		c.lacks(during(t.lease, due, e.At, t), 1,
			"%s lost %s (fence %d) at %s, and never logged the failure of the renewal that was overdue at %s",
			t.inst.id, t.lease.name, t.fence, stamp(e.At), stamp(due))
	}
}

// due returns the host's time after which an entry must have said how the renewal of t went, or that t is over.
func (c *closed) due(t *term) int64 {
	end := t.window(c.p).hi + grace
	if t.inst.renewals > 0 {
		end = min(end, t.confirmed+int64(c.p.Renew+c.p.RenewTimeout*101/100)+int64(check.FailoverAllowance))
	}
	return end
}

// watch looks at t once it is overdue.
func (c *closed) watch(t *term) { t.inst.nextDue = min(t.inst.nextDue, c.due(t)) }

// overdue judges the terms whose renewal or window is overdue although their process runs.
func (c *closed) overdue(i *instance, now int64) {
	if now <= i.nextDue {
		return
	}
	i.nextDue = forever.hi
	for _, t := range i.terms() {
		due := c.due(t)
		switch {
		case t.doubt || t.judged:
			continue
		case now <= due:
		case i.renewals == 0:
			c.doubt("the log leaves out renewals")
			continue
		case t.late == 0:
			t.late = now
			due = now + c.again()
		case now <= t.late+c.again():
			due = t.late + c.again()
		default:
			t.judged = true
			c.exercised++
			c.lacks(during(t.lease, due, now, t), 1, "%s last confirmed %s (fence %d) at %s, and at %s it had logged neither a renewal nor a "+
				"failure, nor that it lost the lease", i.id, t.lease.name, t.fence, stamp(t.confirmed), stamp(now))
			continue
		}
		i.nextDue = min(i.nextDue, due)
	}
}
