package real

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

func TestTapStampFindsTheTimeOfExecution(t *testing.T) {
	ms := int64(time.Millisecond)
	ttl := 30_000 * ms
	var s tapStamp
	steps := []struct {
		name        string
		kind        keyKind
		exec, now   int64 // executed, read
		expiry      bool
		least, most int64 // of the stamp
	}{
		{"prompt", keyLease, 1000 * ms, 1000*ms + 100, true, 1000 * ms, 1000*ms + 100},
		{"late by 400 ms", keyLease, 1300 * ms, 1700 * ms, true, 1300 * ms, 1300*ms + 100},
		{"its neighbour without an expiry", keyLease, 1301 * ms, 1701 * ms, false, 1300 * ms, 1302 * ms},
		{"the next, still late", keyLease, 1305 * ms, 1702 * ms, true, 1302 * ms, 1306 * ms},
		{"prompt again", keyLease, 1800 * ms, 1800*ms + 100, true, 1800 * ms, 1800*ms + 100},
		{"alone, without an expiry", keyLease, 2000 * ms, 2000*ms + 50, false, 2000*ms + 50, 2000*ms + 50},
		{"a kind with another TTL", keyFence, 2100 * ms, 2100*ms + 70, true, 2100 * ms, 2100*ms + 70},
		{"absurdly late", keyLease, 2100 * ms, 9000 * ms, true, 9000 * ms, 9000 * ms},
	}
	for _, c := range steps {
		until := int64(0)
		if c.expiry {
			until = c.exec + ttl
			if c.kind == keyFence {
				until = c.exec + 24*3600*1000*ms
			}
		}
		if got := s.at(c.kind, until, c.now); got < c.least || got > c.most {
			t.Errorf("%s: stamped %v, want %v to %v", c.name, time.Duration(got), time.Duration(c.least), time.Duration(c.most))
		}
	}
}

func TestTapStampsNeverFall(t *testing.T) {
	var s tapStamp
	last := int64(0)
	for i := range int64(1000) {
		now := 1_000_000 * i
		got := s.at(keyKind(i%3), (i%7)*(1e9+i%5*3e6)+now-(i%11)*1e7, now)
		if got < last || got > now {
			t.Fatalf("step %d at %d: stamped %d after %d", i, now, got, last)
		}
		last = got
	}
}

// What is read at once after a stall was executed from its beginning to its end. What Redis deletes by itself it does not delete before its
// end; what somebody else deletes before that is not taken for it.
func TestDeletionsOfABacklog(t *testing.T) {
	ms := int64(time.Millisecond)
	for _, c := range []struct {
		name      string
		end, want int64 // of the key, and the stamp of its deletion
	}{
		{"it ended within the stall", 1300 * ms, 1300 * ms},
		{"it ended when it was read", 1701 * ms, 1701 * ms},
		{"it ended before", 900 * ms, 1201 * ms},
		{"it would have ended later", 1702 * ms, 1201 * ms},
		{"it would have had no end", 0, 1201 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s tapStamp
			ttl := 3000 * ms
			s.at(keyNode, 1000*ms+ttl, 1000*ms)
			s.at(keyNode, 1200*ms+ttl, 1700*ms)
			got := s.deleted(keyLease, c.end, 1701*ms)
			if got != c.want {
				t.Errorf("stamped %v, want %v", time.Duration(got), time.Duration(c.want))
			}
			if next := s.at(keyNode, 1600*ms+ttl, 1702*ms); next != max(got, 1600*ms) {
				t.Errorf("what follows is stamped %v after %v", time.Duration(next), time.Duration(got))
			}
		})
	}
}

func TestTapKnowsTheEndOfWhatIsDeleted(t *testing.T) {
	r := &Redis{}
	r.use("redis://127.0.0.1:1")
	defer func() { _ = r.client.Load().Close() }()
	var told history.Event
	c := newClock()
	end := c.now()
	tap := &tap{
		redis: r, system: systems[systemPolling], clock: c, add: func(e history.Event) { told = e },
		held: map[string]held{"s": {holder: "me", until: end}}, stamp: tapStamp{lag: int64(time.Second), lagAt: end},
	}
	tap.command([][]byte{[]byte("DEL"), []byte("poll:lease:s")})
	if told.T < end || told.Instance != "me" {
		t.Errorf("told %+v, want one of me, not before %d", told, end)
	}
}
