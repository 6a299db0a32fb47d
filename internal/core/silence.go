package core

// silence finds out when Redis stops answering this instance, and when it answers again.
type silence struct {
	*base
	outage

	probing bool   // a probe is to be sent
	next    Time   // when to probe: in a silence, or to find a new epoch (seek)
	asked   Time   // when the last probe was sent
	op      uint64 // the probe under way, 0 none
	toldAt  Time   // when the last TellSilent was sent
}

// outage is the time in which Redis does not answer. It ends with the answer to a read that is as large as the largest attempt to extend
// which was not answered.
type outage struct {
	on     bool
	since  Time   // when it was noticed: only the answer to a read that was sent later ends it
	from   Time   // when the unanswered op was sent
	failed int    // probes without answer in a row
	text   string // of the first failure
	told   bool   // TellSilent was sent
	items  []Item // of the largest attempt to extend that was not answered
}

// unanswered handles an op without a result. After an unanswered attempt to extend, or an unanswered probe, the core sends only reads
// until one is answered. Otherwise, if replies are lost and requests are not, an owner that has stopped working would extend its leases
// for as long as the fault lasts (G5). It reports whether a silence began.
func (s *silence) unanswered(in *inflight, a *Answer) (began bool) {
	extends := in.op.Kind.Extends() && a.Failure == FailUnknown
	if in.probe {
		s.op = 0
		s.failed++
		s.probeLater()
	}
	if extends && len(in.op.Items) > len(s.items) {
		s.items = in.op.Items
	}
	if s.on {
		return false
	}
	if !in.probe && !extends {
		// A refused op or a read has extended nothing. Its failure is a reason to probe, but one probe is enough for many failures.
		if s.asked == 0 || s.k.Now()-s.asked >= Time(s.cfg.MaxProbe) {
			s.probing = true
		}
		return false
	}
	s.on, s.since, s.from, s.text = true, s.k.Now(), in.op.Sent, a.Text
	if s.failed == 0 {
		s.probing = true
	}
	if s.toldAt == 0 || s.k.Now()-s.toldAt >= Time(s.cfg.Renew) {
		s.report()
	}
	return true
}

// report reports a silence once. A silence that follows another within a renewal interval is reported only if it still lasts at the
// next renewal.
func (s *silence) report() {
	if s.on && !s.told {
		s.told, s.toldAt = true, s.k.Now()
		s.tells.tell(Tell{Kind: TellSilent, Text: s.text})
	}
}

func (s *silence) probeLater() {
	s.next = s.k.Now() + Time(s.pause.Probe(s.failed, s.k.Replicated()))
}

// seek plans a probe while held leases wait for their next attempt, because Redis refused it or too few replicas acknowledged it. A new
// master begins another epoch, and so does a replica that attaches itself. Then the instance reasserts its leases at once.
func (s *silence) seek() {
	if s.k.Replicated() && s.next == 0 && !s.on && (s.paces.paced(OpRenew) || s.paces.paced(OpReassert)) {
		s.next = s.k.Now() + Time(s.pause.Seek())
	}
}

// probe sends a probe if one is to be sent and none is under way. It reads the epoch, and also the leases of the largest unanswered attempt
// to extend. Otherwise, on a path that lets only small messages through in time, the probe would be answered, and each attempt after it
// executed too late to be of use (G8).
func (s *silence) probe() {
	due := s.probing && s.op == 0
	s.probing = false
	if due {
		s.op, s.asked = s.req.probe(s.items, s.pause.ProbeTimeout(s.failed)), s.k.Now()
	}
}

// heard handles an answer. A silence ends with the answer to a read that was sent after the silence began, and that is as large as the
// largest unanswered attempt to extend. renew is when all leases are renewed next.
func (s *silence) heard(in *inflight, renew Time) (over bool) {
	if in.probe {
		s.op = 0
		if !s.on {
			s.failed = 0
			s.paces.tellRefusing(renew)
		}
	}
	if !s.on || !in.op.Kind.Reads() || in.op.Sent < s.since || len(s.items) > 0 && !in.probe {
		s.probing = s.probing || s.on && in.probe // a probe sent before the silence does not end it: send another
		return false
	}
	was, lasted := s.outage, s.k.Now()-s.from
	s.outage, s.next = outage{}, 0
	if was.told {
		s.tells.tell(Tell{Kind: TellHeard, Text: was.text})
	}
	s.paces.tellRefusing(renew)
	if lasted >= Time(s.cfg.Renew/4) { // the longest pace, so that frequent short silences do not bypass it (G14)
		s.paces.resume()
	}
	return true
}
