package core

// silence is what the instance knows of a Redis that does not answer.
type silence struct {
	on     bool
	since  Time   // when it was noticed: only an answer to a read sent at or after it ends the silence
	from   Time   // when what was not answered was sent
	again  bool   // and it was not the first of its kind
	asked  Time   // when the last probe was sent
	op     uint64 // the probe in flight
	failed int    // probes without answer in a row
	text   string // what the first failure said
	told   bool
	toldAt Time   // when one was told last
	items  []Item // of the largest attempt to extend that was not answered
}

// fellSilent takes note that an op has no result. After an attempt to extend something, or a probe, the only thing sent is
// a read, until one is answered: when replies are lost and requests are not, an owner that has stopped working would
// otherwise go on extending what it holds for as long as the fault lasts (G5).
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
		// What was refused, or only read, has extended nothing; it is a reason to find out whether Redis answers, not yet one to
		// hold everything back. Not with every failure of many: the last read tells enough.
		if s.asked == 0 || c.now.Mono-s.asked >= Time(c.cfg.MaxProbe) {
			c.queue.probe = true
		}
		return
	}
	s.on, s.since, s.from, s.text = true, c.now.Mono, in.op.Sent, a.Text
	s.again = max(c.paces[in.op.Kind].failed, s.failed) > 1
	if s.failed == 0 {
		c.queue.probe = true
	}
	if c.fleet.look != 0 { // its answer may be far behind the fault; a fresh one follows the silence
		c.fleet.lookFailed(c.fleet.look)
	}
	if s.toldAt == 0 || c.now.Mono-s.toldAt >= Time(c.cfg.Renew) {
		c.tellSilent()
	}
}

// tellSilent tells of a silence, once. One that follows another within a renewal interval is told at the next renewal, if it lasts.
func (c *Core) tellSilent() {
	if s := &c.silence; s.on && !s.told {
		s.told, s.toldAt = true, c.now.Mono
		c.tell(Tell{Kind: TellSilent, Text: s.text})
	}
}

func (c *Core) probeLater() {
	pause := c.cfg.MaxProbe >> max(0, 4-c.silence.failed)
	if c.epoch.acks > 0 {
		pause = min(pause, c.cfg.Renew/seekShare)
	}
	c.nextProbe = c.now.Mono + Time(max(pause, Millisecond))
}

// seekShare is how many times in a renewal interval an instance of a replicated Redis asks at most whether it can assert what it holds:
// after a failover that is all that its owners wait for, and a probe is one command.
const seekShare = 50

// seek has the epoch asked for while what is held waits for its next attempt, because it was refused or too few replicas acknowledged it.
// Another master, and a replica that attaches itself, each begin another epoch, and who hears of it asserts at once.
func (c *Core) seek() {
	if c.epoch.acks > 0 && c.nextProbe == 0 && !c.silence.on && len(c.held) > 0 && (c.paced(OpRenew) || c.paced(OpReassert)) {
		c.nextProbe = c.now.Mono + Time(max(c.cfg.Renew/seekShare, Millisecond))
	}
}

// probe asks for the epoch, and reads along whatever the largest attempt to extend asked for that was not answered: on a path
// that lets only small messages through in time, a small read would be answered again and again, and each attempt that
// follows be executed too late to be used (G8).
func (c *Core) probe() {
	if c.silence.op != 0 {
		return
	}
	seq := c.send(OpObserve, c.silence.items, nil)
	c.silence.op, c.silence.asked = seq, c.now.Mono
	// A probe is given up sooner than an attempt: when the path heals, the time until it is used again is what counts.
	// Each failure doubles the patience, so that a path which is merely slow is found too.
	patience := max(c.cfg.OpTimeout/6, 50*Millisecond) << min(c.silence.failed, 6)
	in := c.ops.find(seq)
	in.op.Deadline = c.now.Mono + Time(min(patience, c.cfg.OpTimeout))
	c.eff.Ops[len(c.eff.Ops)-1].Deadline = in.op.Deadline
	c.timers.push(timer{at: in.op.Deadline, kind: timerOp, n: seq})
}

// heard takes note that an op was answered. What ends a silence is the answer to a read that was sent after it began, and
// that is as large as what was not answered.
func (c *Core) heard(in *inflight) {
	s := &c.silence
	probe := in.op.Seq == s.op
	if probe {
		s.op = 0
	}
	if probe && !s.on {
		s.failed = 0
		c.tellRefusing()
	}
	if !s.on || !in.op.Kind.reads() || in.op.Sent < s.since || len(s.items) > 0 && !probe {
		c.queue.probe = c.queue.probe || s.on && probe // it was under way when the silence began, and ends nothing
		return
	}
	was, brief := *s, s.again && c.now.Mono-s.from < Time(c.cfg.Discovery/100)
	*s = silence{op: s.op, asked: s.asked, toldAt: s.toldAt}
	c.nextProbe = 0
	if was.told {
		c.tell(Tell{Kind: TellHeard, Text: was.text})
	}
	c.tellRefusing()
	c.observeWanted()
	if brief {
		c.fleet.discover(discoverHeardBriefly)
	} else {
		c.fleet.discover(discoverHeard)
	}
	if c.now.Mono-was.from >= Time(c.cfg.Renew/4) { // as long as anything waits: what repeats itself faster is not resumed each time (G14)
		c.resume()
	}
	c.catchUp()
}

// catchUp sends what a silence has held back.
func (c *Core) catchUp() {
	c.registry.own.beat = !c.cfg.NoHeartbeat
	for _, l := range c.held {
		if (l.uncertain || l.reassert) && l.op == 0 {
			c.requestRenew(l)
		}
	}
}
