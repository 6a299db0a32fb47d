package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// result is what one storm showed.
type result struct {
	faults    int             // that began
	two       time.Duration   // two awake instances trusted one lease
	asleep    time.Duration   // two trusted it, and at least one of them was frozen
	late      int             // polls begun after another instance had acquired the lease
	accepted  int             // of them, those that reached the target and were accepted there
	takeovers []time.Duration // from an owner's death to the next acquisition
	handovers []time.Duration // from a release to the next acquisition
	commands  float64         // to Redis, a minute
	idle      time.Duration   // the longest time without the start of a poll
}

// belief is a time in which an instance trusts the lease.
type belief struct {
	instance, node  string
	from, to, until int64 // to: 0 while it lasts; until: 0 without a deadline
}

// span is a time in which a node is frozen.
type span struct {
	node     string
	from, to int64
}

// reader follows a history with one session.
type reader struct {
	result
	asks   map[string]bool // instances that ask before each use
	all    []*belief
	frozen []span

	owner, ownerNode string // instance that acquired last
	dead             int64  // when the owner's process ended with the lease; 0: it did not
	released         int64
	counting         int64 // since when commands are counted
	sent             int64
	polled           int64 // when the last poll began; 0: none has
	now              int64
}

// settled is when all clients have connected.
const settled = int64(5 * time.Second)

// measure reads the history in a run's folder.
func measure(dir string) (result, error) {
	r := &reader{asks: map[string]bool{}}
	for e, err := range history.Open(dir) {
		if err != nil {
			return result{}, err
		}
		r.event(&e)
	}
	for _, b := range r.all {
		b.end(r.now)
	}
	r.overlaps()
	return r.result, nil
}

func (r *reader) event(e *history.Event) {
	r.now = e.T
	switch e.Kind {
	case history.Ready:
		r.asks[e.Instance] = e.Reason == history.Asks
	case history.Acquired:
		r.acquired(e)
	case history.Renewed:
		r.trust(e)
	case history.RenewFailed, history.Lost, history.Released:
		r.close(func(b *belief) bool { return b.instance == e.Instance })
		if e.Kind == history.Released && e.Instance == r.owner {
			r.released = e.T
		}
	case history.PollStart:
		r.worked()
		if r.owner != "" && r.owner != e.Instance {
			r.late++
		}
		if r.asks[e.Instance] {
			r.all = append(r.all, &belief{instance: e.Instance, node: e.Node, from: e.T})
		}
	case history.PollEnd, history.PollCancelled:
		r.close(func(b *belief) bool { return b.instance == e.Instance && r.asks[e.Instance] })
	case history.Arrived:
		if r.owner != "" && r.owner != e.Instance {
			r.accepted++
		}
	default:
		r.harness(e)
	}
}

func (r *reader) harness(e *history.Event) {
	switch e.Kind {
	case history.Exited:
		r.died(e)
	case history.FaultStart:
		r.faults++
		switch e.Reason {
		case "freeze":
			r.frozen = append(r.frozen, span{node: e.Node, from: e.T})
		case "crash": // its exit may be noticed later
			r.died(e)
		}
	case history.FaultEnd:
		if i := slices.IndexFunc(r.frozen, func(f span) bool { return f.node == e.Node && f.to == 0 }); i >= 0 {
			r.frozen[i].to = e.T
		}
	case history.Commands:
		if e.T > settled && r.counting != 0 {
			r.sent += e.N
		}
	case history.Phase:
		switch e.Reason {
		case "storm":
			r.counting = max(e.T, settled)
		case "calm":
			r.worked()
			r.commands = float64(r.sent) / time.Duration(e.T-r.counting).Minutes()
			r.counting = 0
		}
	}
}

// died ends what a process believes.
func (r *reader) died(e *history.Event) {
	if e.Node == r.ownerNode && r.released == 0 && r.dead == 0 {
		r.dead = e.T
	}
	r.close(func(b *belief) bool { return b.node == e.Node })
}

// worked ends a time without polls.
func (r *reader) worked() {
	if r.polled != 0 {
		r.idle = max(r.idle, time.Duration(r.now-r.polled))
	}
	r.polled = r.now
}

func (r *reader) acquired(e *history.Event) {
	switch {
	case r.owner == e.Instance:
	case r.dead != 0:
		r.takeovers = append(r.takeovers, time.Duration(e.T-r.dead))
	case r.released != 0:
		r.handovers = append(r.handovers, time.Duration(e.T-r.released))
	}
	r.owner, r.ownerNode, r.dead, r.released = e.Instance, e.Node, 0, 0
	r.trust(e)
}

// trust opens or prolongs the belief of an instance that does not ask before each use.
func (r *reader) trust(e *history.Event) {
	if r.asks[e.Instance] {
		return
	}
	i := slices.IndexFunc(r.all, func(b *belief) bool { return b.instance == e.Instance && b.to == 0 && (b.until == 0 || b.until > e.T) })
	if i < 0 {
		r.close(func(b *belief) bool { return b.instance == e.Instance })
		i = len(r.all)
		r.all = append(r.all, &belief{instance: e.Instance, node: e.Node, from: e.T})
	}
	r.all[i].until = e.Until
}

func (r *reader) close(which func(*belief) bool) {
	for _, b := range r.all {
		if b.to == 0 && which(b) {
			b.end(r.now)
		}
	}
}

func (b *belief) end(at int64) {
	if b.to == 0 {
		b.to = max(b.from, min(at, cmp.Or(b.until, at)))
	}
}

// overlaps adds up the times in which two instances believe, between the instants at which anything changes.
func (r *reader) overlaps() {
	var times []int64
	for _, b := range r.all {
		times = append(times, b.from, b.to)
	}
	for _, f := range r.frozen {
		times = append(times, f.from, f.to)
	}
	slices.Sort(times)
	for i := 1; i < len(times); i++ {
		from, to := times[i-1], times[i]
		believers, awake := map[string]bool{}, map[string]bool{}
		for _, b := range r.all {
			if b.from <= from && to <= b.to {
				believers[b.instance] = true
				if !r.sleeps(b.node, from, to) {
					awake[b.instance] = true
				}
			}
		}
		switch {
		case len(awake) > 1:
			r.two += time.Duration(to - from)
		case len(believers) > 1:
			r.asleep += time.Duration(to - from)
		}
	}
}

func (r *reader) sleeps(node string, from, to int64) bool {
	return slices.ContainsFunc(r.frozen, func(f span) bool { return f.node == node && f.from <= from && to <= f.to })
}

// sample holds one number of each storm.
type sample []time.Duration

// percentile returns the time that p percent do not exceed, 0 without any.
func (s sample) percentile(p int) time.Duration {
	if len(s) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(s))[(len(s)*p+99)/100-1]
}

// least is the shortest time that counts: on a busy machine, a process needs so long to say what it has noticed.
const least = 20 * time.Millisecond

// nonzero returns how many times count.
func (s sample) nonzero() (n int) {
	for _, d := range s {
		if d > least {
			n++
		}
	}
	return n
}

// text returns a duration as the page writes it.
func text(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return strings.Replace((d.Round(10 * time.Millisecond)).String(), "s", " s", 1)
}
