package virtual

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

// The kinds of events.
const (
	evTick        uint8 = iota // node: the core requested this time
	evSend                     // node: msg leaves the process
	evArrive                   // msg reaches Redis
	evExec                     // Redis executes msg
	evReply                    // msg's answer reaches node
	evTimeout                  // node: msg's deadline passed without an answer
	evNotice                   // note reaches node
	evPoll                     // node: the next poll of term arg is due
	evPollArrive               // poll arg reaches the target
	evPollServed               // the target answers poll arg
	evPollEnd                  // node: the answer of poll arg arrives
	evPollTimeout              // node: poll arg times out
	evLeaseExpiry              // Redis: lease arg may have expired
	evBeatExpiry               // Redis: heartbeat arg may have expired
	evPollSend                 // node: poll arg is sent
	evFaultStart               // plan fault arg begins
	evFaultEnd                 // plan fault arg ends
	evCall                     // call arg is due
	evProcess                  // node: call arg is due
)

func named(e *loop.Event) bool { return e.Kind >= evSend && e.Kind <= evTimeout }

// Each concern has its own random stream, so a change in one does not alter the draws of the others.
const (
	streamNet   = 0x6e6574
	streamLoad  = 0x6c6f6164
	streamSetup = 0x7365747570
	streamFault = 0x6661756c74
)

const (
	phaseStart = iota
	phaseStorm
	phaseCalm
	phaseEnd
)

var phaseNames = [...]string{phaseStart: "start", phaseStorm: "storm", phaseCalm: "calm", phaseEnd: "end"}

// timeline is the run's true time: the queue of events, the random streams, and the record of what happens. All parts of a run share it.
type timeline struct {
	cfg     Config
	t       int64 // true time, ns
	q       loop.Queue
	phase   int
	netRand *rand.Rand // of the network and of timers
	load    *rand.Rand // of the application and of the target

	calls  []func() // by number
	vacant []int32  // numbers of unused calls
	gens   uint32   // last generation of a term or poll

	sink func(history.Event)
	out  Outcome
}

func (tl *timeline) calm() int64 { return int64(tl.cfg.Start + tl.cfg.Storm) }

// after calls f after d, whether or not processes end.
func (tl *timeline) after(d int64, f func()) {
	tl.q.Push(loop.Event{At: tl.t + max(0, d), Kind: evCall, Arg: tl.keep(f)})
}

func (tl *timeline) keep(f func()) int32 {
	i := slot(&tl.calls, &tl.vacant)
	tl.calls[i] = f
	return i
}

func (tl *timeline) take(i int32) func() {
	f := tl.calls[i]
	tl.calls[i] = nil
	tl.vacant = append(tl.vacant, i)
	return f
}

func (tl *timeline) emit(e history.Event) {
	if tl.sink != nil {
		e.T = tl.t
		tl.sink(e)
	}
}

func (tl *timeline) note(format string, args ...any) {
	tl.emit(history.Event{Kind: history.Note, Reason: fmt.Sprintf(format, args...)})
}

func (tl *timeline) bucket() int64 { return int64(history.Bucket(tl.cfg.Renew)) }

// hop is the delay to the target. This network has no faults, because a cut-off instance that reaches its target is the dangerous case.
func (tl *timeline) hop() int64 {
	return int64(tl.cfg.Net.Delay) + upTo(tl.load, int64(tl.cfg.Net.Jitter))
}

// loses draws whether the network loses a message. In the calm it loses none.
func (tl *timeline) loses(ppm int64) bool { return tl.phase < phaseCalm && chance(tl.netRand, ppm) }

// epochNs is the wall time at true time zero, 2024-01-01. Fences are microseconds of Redis' clock.
const epochNs = int64(1_704_067_200) * int64(time.Second)

// spread draws from [-d, d].
func spread(r *rand.Rand, d int64) int64 {
	if d <= 0 {
		return 0
	}
	return r.Int64N(2*d+1) - d
}

// upTo draws from [0, d), 0 if d is not positive.
func upTo(r *rand.Rand, d int64) int64 {
	if d <= 0 {
		return 0
	}
	return r.Int64N(d)
}

const million = int64(1_000_000)

// chance returns true with a probability of ppm per million.
func chance(r *rand.Rand, ppm int64) bool { return ppm > 0 && r.Int64N(million) < ppm }

// slot returns an unused index of all, and extends all if necessary.
func slot[T any](all *[]T, vacant *[]int32) int32 {
	if k := len(*vacant); k > 0 {
		i := (*vacant)[k-1]
		*vacant = (*vacant)[:k-1]
		return i
	}
	*all = append(*all, *new(T))
	return int32(len(*all) - 1)
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func cutText(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s[:min(len(s), 200)]
}

// rate draws a clock's rate error in parts per million.
func (c Clock) rate(r *rand.Rand) int64 {
	if c.Edge {
		return c.Drift * int64(2*r.IntN(2)-1)
	}
	return spread(r, c.Drift)
}
