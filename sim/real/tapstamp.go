package real

import "time"

// tapStamp says when Redis executed what the stream tells. The stream may be read late, by hundreds of milliseconds on a
// busy machine, and then a lease would seem granted after its owner believed in it. But an expiry is the moment of
// execution plus a TTL, so that the smallest difference ever seen between reading and expiry, which is the promptest
// reading, tells when all the others were executed. Commands without an expiry are taken to be as late as their
// neighbours, but for what Redis may have deleted by itself. Times never fall: the stream is in the order of execution.
type tapStamp struct {
	offset [keyKinds]int64 // smallest (time of reading − expiry), by kind of key
	known  [keyKinds]bool
	last   int64 // latest stamp given
	lag    int64 // of the last command with an expiry
	lagAt  int64 // when that was read
}

const (
	// tapLagMax bounds what is believed: a kind of key whose TTLs differ would tell of lags that are none.
	tapLagMax = int64(2 * time.Second)
	// tapLagLife is how long a lag holds for commands without an expiry.
	tapLagLife = int64(20 * time.Millisecond)
)

// at returns when the command was executed that was read now and set an expiry for a key of that kind; until is 0 for one
// that set none.
func (s *tapStamp) at(kind keyKind, until, now int64) int64 {
	if until != 0 {
		x := now - until
		if !s.known[kind] || x < s.offset[kind] {
			s.offset[kind], s.known[kind] = x, true
		}
		s.lag, s.lagAt = now-(until+s.offset[kind]), now
		if s.lag > tapLagMax {
			s.lag = 0
		}
	}
	t := now
	if now-s.lagAt <= tapLagLife {
		t = now - s.lag
	}
	s.last = max(s.last, t)
	return s.last
}

// deleted returns the same of a key that is gone and had that end, 0 for none. One that has ended by now was not deleted before its end,
// unless somebody else did it: after a stall its neighbour may have been executed when that began.
func (s *tapStamp) deleted(kind keyKind, end, now int64) int64 {
	s.at(kind, 0, now)
	if end <= now {
		s.last = max(s.last, end)
	}
	return s.last
}
