package stream

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

// A busy host reads the stream late and in bunches, and writes marks late. Each stamp is at or after its command's execution, stamps never
// decrease, and a stamp that may be too late is announced.
func TestStampsOfABusyHost(t *testing.T) {
	t.Parallel()
	ms := int64(time.Millisecond)
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		lag := rng.Int64N(5000) * ms // of the reader
		gap := 50 + rng.Int64N(2000) // ms between two marks
		several := rng.IntN(4) == 0  // TTLs
		var s stamps
		var executed []int64
		var got []history.Event
		for now := int64(1); now < 20_000; now += rng.Int64N(30) {
			at := now * ms
			fresh := int64(0)
			if rng.IntN(3) > 0 {
				if fresh = at + 3000*ms; several && rng.IntN(2) == 0 {
					fresh = at + 9000*ms
				}
			}
			executed = append(executed, at)
			s.add(shown{kind: KeyLease, fresh: fresh, read: span{0, at + rng.Int64N(lag+1)}})
			if rng.Int64N(gap) < 15 {
				got = append(got, s.mark(at)...)
			}
		}
		got = append(got, s.mark(20_000*ms)...)
		var late []span
		last := int64(0)
		for _, e := range got {
			if e.Kind == history.StreamLate {
				late = append(late, span{e.T, e.Until})
			}
		}
		for _, e := range got {
			if e.Kind == history.StreamLate {
				continue
			}
			at := executed[0]
			executed = executed[1:]
			if e.T < at || e.T < last {
				t.Fatalf("seed %d: executed at %d, stamped %d after %d", seed, at, e.T, last)
			}
			last = e.T
			announced := false
			for _, l := range late {
				announced = announced || l.from <= at && e.T <= l.to
			}
			if e.T-at > placedWithin && !announced {
				t.Fatalf("seed %d: executed at %d, stamped %d: %d ms late, which nothing announces", seed, at, e.T, (e.T-at)/ms)
			}
		}
		if len(executed) > 0 {
			t.Fatalf("seed %d: %d events are missing", seed, len(executed))
		}
	}
}

func TestStamps(t *testing.T) {
	t.Parallel()
	const ms = int64(time.Millisecond)
	const ttl = 3000 * ms
	lease := func(at, read int64) shown {
		return shown{kind: KeyLease, fresh: at*ms + ttl, read: span{0, read * ms}}
	}
	other := func(read int64) shown { return shown{kind: KeyRecord, read: span{0, read * ms}} }
	joined := func(e shown) shown { e.joins = true; return e }
	for name, c := range map[string]struct {
		before []shown // whose mark is at 1000 ms
		events []shown // whose mark is at 3000 ms
		want   []int64 // ms, negative: the beginning of what is late
	}{
		"read at once":                         {events: []shown{other(1001), other(1500)}, want: []int64{1001, 1500, -1000}},
		"read late, placed by the mark":        {events: []shown{other(9000)}, want: []int64{3000, -1000}},
		"read late, placed by its expiry":      {before: []shown{lease(1000, 1000)}, events: []shown{lease(1700, 9000)}, want: []int64{1700}},
		"before one that is placed":            {before: []shown{lease(1000, 1000)}, events: []shown{other(9000), lease(1700, 9000)}, want: []int64{1700, 1700, -1000}},
		"in one script with one that is":       {before: []shown{lease(1000, 1000)}, events: []shown{other(9000), joined(lease(1700, 9000))}, want: []int64{1700, 1700}},
		"after the stream was empty":           {events: []shown{{kind: KeyRecord, read: span{1900 * ms, 2000 * ms}}}, want: []int64{2000}},
		"of a kind of key that has three TTLs": {before: []shown{lease(1000, 1000), lease(-500, 1000)}, events: []shown{lease(1700, 9000)}, want: []int64{3000, -1000}},
	} {
		t.Run(name, func(t *testing.T) {
			var s stamps
			s.mark(990 * ms)
			s.waiting = c.before
			s.mark(1000 * ms)
			s.waiting = c.events
			var got []int64
			for _, e := range s.mark(3000 * ms) {
				if at := e.T / ms; e.Kind == history.StreamLate {
					got = append(got, -at)
				} else {
					got = append(got, at)
				}
			}
			if len(got) != len(c.want) {
				t.Fatalf("stamped %v, want %v", got, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("stamped %v, want %v", got, c.want)
				}
			}
		})
	}
}

func TestReaderKnowsWhenItsConnectionWasEmpty(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	clock := host.NewClock()
	r := reader{Conn: c}
	if err := r.watch(clock.Now); err != nil {
		t.Fatal(err)
	}
	go func() {
		for range 2 {
			time.AfterFunc(3*emptyEvery, func() { _, _ = peer.Write([]byte("x")) })
			_, _ = peer.Read(make([]byte, 1))
		}
		_ = peer.Close()
	}()
	for range 2 {
		before := clock.Now()
		if n, err := r.Read(make([]byte, 10)); n != 1 || err != nil {
			t.Fatalf("read %d, %v", n, err)
		}
		if r.empty < before || r.empty > clock.Now() {
			t.Errorf("empty at %d, not between %d and now", r.empty, before)
		}
		_, _ = c.Write([]byte("y"))
	}
	if _, err := r.Read(make([]byte, 10)); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v, want EOF", err)
	}
}
