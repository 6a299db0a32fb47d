package core

import "github.com/leasestorm/leasestorm/internal/place"

type silence struct {
	on     bool
	since  Time   // when it was noticed: only the answer to a read that was sent later ends the silence
	from   Time   // when the unanswered op was sent
	again  bool   // the op was not the first of its kind to fail
	asked  Time   // when the last probe was sent
	op     uint64 // the probe under way, 0 none
	failed int    // probes without answer in a row
	text   string // of the first failure
	told   bool   // TellSilent was sent
	toldAt Time   // when the last TellSilent was sent
	items  []Item // of the largest attempt to extend that was not answered
}

// fellSilent handles an op without a result. After an unanswered attempt to extend, or an unanswered probe, the core sends only reads
// until one is answered. Otherwise, if replies are lost and requests are not, an owner that has stopped working would extend its leases
// for as long as the fault lasts (G5).
func (c *Core) fellSilent(in *inflight, a *Answer) {
	s := &c.silence
	probe := s.op
	if in.op.Seq == probe {
		s.op = 0
		s.failed++
		c.probeLater()
	}
	if in.op.Kind.Extends() && a.Failure == FailUnknown && len(in.op.Items) > len(s.items) {
		s.items = in.op.Items
	}
	if s.on {
		return
	}
	if in.op.Seq != probe && !(in.op.Kind.Extends() && a.Failure == FailUnknown) {
		// A refused op or a read has extended nothing. It is a reason to probe, but not with every failure of many.
		if s.asked == 0 || c.k.Now()-s.asked >= Time(c.cfg.MaxProbe) {
			c.req.probe = true
		}
		return
	}
	s.on, s.since, s.from, s.text = true, c.k.Now(), in.op.Sent, a.Text
	s.again = max(c.paces.of[in.op.Kind].failed, s.failed) > 1
	if s.failed == 0 {
		c.req.probe = true
	}
	if c.table.UnderWay() != 0 { // its answer may come long after the fault; a new discovery follows the silence
		c.table.LookFailed(c.table.UnderWay())
	}
	if s.toldAt == 0 || c.k.Now()-s.toldAt >= Time(c.cfg.Renew) {
		c.tellSilent()
	}
}

// tellSilent reports a silence once. If one follows another within a renewal interval, it is reported at the next renewal, if it lasts.
func (c *Core) tellSilent() {
	if s := &c.silence; s.on && !s.told {
		s.told, s.toldAt = true, c.k.Now()
		c.tells.tell(Tell{Kind: TellSilent, Text: s.text})
	}
}

func (c *Core) probeLater() {
	c.nextProbe = c.k.Now() + Time(c.pause.Probe(c.silence.failed, c.k.Replicated()))
}

// seek plans a probe while held leases wait for their next attempt, because Redis refused it or too few replicas acknowledged it. A new
// master begins another epoch, and so does a replica that attaches itself. Then the instance reasserts its leases at once.
func (c *Core) seek() {
	if c.k.Replicated() && c.nextProbe == 0 && !c.silence.on && len(c.held) > 0 && (c.paces.paced(OpRenew) || c.paces.paced(OpReassert)) {
		c.nextProbe = c.k.Now() + Time(c.pause.Seek())
	}
}

// probe reads the epoch, and also the leases of the largest unanswered attempt to extend. Otherwise, on a path that lets only small
// messages through in time, the probe would be answered, and each attempt after it executed too late to be of use (G8).
func (c *Core) probe() {
	if c.silence.op != 0 {
		return
	}
	seq := c.req.send(OpObserve, c.silence.items, nil)
	c.silence.op, c.silence.asked = seq, c.k.Now()
	in := c.req.underWay.find(seq)
	in.op.Deadline = c.k.Now() + Time(c.pause.ProbeTimeout(c.silence.failed))
	c.req.sent[len(c.req.sent)-1].Deadline = in.op.Deadline
	c.timers.push(timer{at: in.op.Deadline, kind: timerOp, n: seq})
}

// heard handles an answer. A silence ends with the answer to a read that was sent after the silence began, and that is as large as the
// unanswered attempt.
func (c *Core) heard(in *inflight) {
	s := &c.silence
	probe := in.op.Seq == s.op
	if probe {
		s.op = 0
	}
	if probe && !s.on {
		s.failed = 0
		c.paces.tellRefusing(c.nextRenew)
	}
	if !s.on || !in.op.Kind.Reads() || in.op.Sent < s.since || len(s.items) > 0 && !probe {
		c.req.probe = c.req.probe || s.on && probe // a probe sent before the silence does not end it: send another
		return
	}
	was, brief := *s, s.again && c.k.Now()-s.from < Time(c.cfg.Discovery/100)
	*s = silence{op: s.op, asked: s.asked, toldAt: s.toldAt}
	c.nextProbe = 0
	if was.told {
		c.tells.tell(Tell{Kind: TellHeard, Text: was.text})
	}
	c.paces.tellRefusing(c.nextRenew)
	c.observeWanted()
	if brief {
		c.table.Discover(place.DiscoverHeardBriefly)
	} else {
		c.table.Discover(place.DiscoverHeard)
	}
	if c.k.Now()-was.from >= Time(c.cfg.Renew/4) { // the longest pace, so that frequent short silences do not bypass it (G14)
		c.paces.resume()
	}
	c.catchUp()
}
