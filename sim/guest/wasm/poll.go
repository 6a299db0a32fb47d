package wasm

import (
	"encoding/binary"
	"math"
)

// Layout of poll_oneoff: a subscription has 48 bytes, an event 32.
const (
	subscriptionSize, eventSize = 48, 32

	onClock, onRead, onWrite = 0, 1, 2
)

// subscription is one thing that a program waits for.
type subscription struct {
	userdata uint64
	on       byte
	wall     bool  // due is of the wall clock
	due      int64 // for onClock
	fd       int32
}

// poll waits until one of the subscriptions is ready. It is the only call that waits.
func (c call) poll() errno {
	n := c.u32(2)
	if n == 0 {
		return einval
	}
	mono, wall := c.clock()
	subs := make([]subscription, n)
	for i := range subs {
		subs[i] = parseSubscription(c.bytes(c.u32(0)+uint32(i)*subscriptionSize, subscriptionSize), mono, wall)
	}
	for {
		ready := uint32(0)
		next := int64(0)
		for _, s := range subs {
			e, ok := c.ready(s, mono, wall)
			if ok {
				c.putEvent(ready, s, e)
				ready++
			} else if s.on == onClock {
				next = earlier(next, mono, s, wall)
			}
		}
		if ready > 0 {
			c.put(c.u32(3), ready)
			return success
		}
		c.wait(next)
		mono, wall = c.clock()
	}
}

func parseSubscription(b []byte, mono, wall int64) subscription {
	s := subscription{userdata: binary.LittleEndian.Uint64(b), on: b[8]}
	if s.on != onClock {
		s.fd = int32(binary.LittleEndian.Uint32(b[16:]))
		return s
	}
	s.wall = binary.LittleEndian.Uint32(b[16:]) == 0
	timeout := int64(min(binary.LittleEndian.Uint64(b[24:]), math.MaxInt64))
	now := int64(0)
	if b[40]&1 == 0 { // the time is relative
		now = mono
		if s.wall {
			now = wall
		}
	}
	s.due = now + min(timeout, math.MaxInt64-now)
	return s
}

// ready reports whether a program need not wait for s, with the error of its event.
func (c call) ready(s subscription, mono, wall int64) (errno, bool) {
	if s.on == onClock {
		now := mono
		if s.wall {
			now = wall
		}
		return success, now >= s.due
	}
	f := c.files[s.fd]
	switch {
	case f == nil:
		return ebadf, true
	case s.on == onRead:
		return success, f.readable()
	}
	return success, f.writable()
}

// earlier returns the earlier of a time of the monotonic clock, if it is not 0, and that of s.
func earlier(next, mono int64, s subscription, wall int64) int64 {
	due := s.due
	if s.wall {
		due = mono + (s.due - wall)
	}
	if next == 0 {
		return due
	}
	return min(next, due)
}

func (c call) putEvent(i uint32, s subscription, e errno) {
	b := c.bytes(c.u32(1)+i*eventSize, eventSize)
	clear(b)
	binary.LittleEndian.PutUint64(b, s.userdata)
	binary.LittleEndian.PutUint16(b[8:], uint16(e))
	b[10] = s.on
}
