package check

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// strike is a fault of the plan that really struck.
type strike struct {
	fault.Fault
	index   int64
	node    *node
	session string
	start   int64
	end     int64   // when it was healed; 0: not yet, or never
	open    bool    // it goes on
	heard   int64   // when somebody wrote to Redis first after it was healed: a quarantine begins by then; 0: nobody yet
	terms   []*term // that it struck, until it is healed
	unsaid  int64   // when the process that it stopped ended without being able to sign off; 0: it did not
	bars    bool    // somebody sees only at its end that Redis' clock jumped, and acquires nothing for a TTL from then on
}

func (s *strike) String() string {
	name := string(s.Kind)
	switch {
	case s.node != nil:
		name += " of " + s.node.name
	case s.session != "":
		name += " of session " + s.session
	}
	return fmt.Sprintf("%s at %s", name, clock(s.start))
}

// silences reports whether the fault leaves its node alive but unheard.
func (s *strike) silences() bool {
	return s.Kind.Has(fault.Silences)
}

// lingers is for how long after its end, in ns, what was under way may still arrive.
func (s *strike) lingers() int64 {
	if s.Kind.Has(fault.Lingers) {
		return (s.Ms + s.Jitter) * int64(time.Millisecond)
	}
	return 0
}

// freezes reports whether the fault stops its process.
func (s *strike) freezes() bool {
	return s.Kind.Has(fault.Freezes)
}

// forgets reports whether Redis comes back from it as another one (run_id or marker), so that a quarantine follows.
func (s *strike) forgets() bool {
	return s.Kind.Has(fault.Forgets)
}

// ofRedis reports whether the fault takes Redis away from everybody for a while.
func (s *strike) ofRedis() bool {
	return s.Kind.Has(fault.Denies)
}

// missedFailover reports whether the fault, which ends now, may have kept somebody from hearing of a failover until now: the other
// server's clock may be another, and who hears so acquires nothing for a TTL. Who is not disturbed hears of it with the next
// renewal or heartbeat; disturbances that leave less time than that between them are one.
func (w *world) missedFailover(by *strike) bool {
	hears := int64(max(w.Renew, w.Heartbeat) + w.RenewTimeout)
	since := by.start
	lasted := func(s *strike) bool { return s.open || s.end+s.lingers()+hears >= since }
	for _, s := range slices.Backward(w.strikes) {
		if (s.ofRedis() || s.silences() && (by.node == nil || s.node == by.node)) && lasted(s) {
			since = min(since, s.start)
		}
	}
	return slices.ContainsFunc(w.losses, func(s *strike) bool { return s.Kind.Has(fault.FailsOver) && lasted(s) })
}

// span is an interval of time, ends included.
type span struct{ from, to int64 }

// reach is the time in which the strike can delay what others do: while it lasts and in its aftermath. Faults that cannot
// delay anybody have none.
func (w *world) reach(s *strike) (span, bool) {
	end := s.end
	if s.open {
		end = w.now
	}
	end = max(end, s.start)
	switch {
	case s.Kind.Has(fault.Kills): // its leases and its heartbeat outlive it
		return span{s.start, s.start + int64(w.TTL)}, true
	case s.unsaid != 0: // the others find out as they do of one that was killed
		return span{s.start, s.unsaid + int64(w.TTL)}, true
	case s.Kind.Has(fault.Stops | fault.Disconnects):
		return span{s.start, s.start + int64(failoverAllowance)}, true
	case s.Kind.Has(fault.StepsClock): // its node doubts its terms, and acquires nothing for a TTL
		return span{s.start, s.start + int64(w.TTL+w.Renew)}, true
	case s.Kind == fault.RedisSlow:
		return span{s.start, max(end, s.start+s.Ms*int64(time.Millisecond))}, true
	case w.forgets(s): // the quarantine begins with the first script that sees the loss: a renewal at the latest
		return span{s.start, max(end+int64(w.TTL+w.Renew), s.heard+int64(w.TTL))}, true
	case s.Kind.Refuses() > fault.RefusesNothing: // what it refused last is tried again after a quarter of an interval at most (G14)
		return span{s.start, end + int64(w.Renew)/4}, true
	case s.Kind.Has(fault.Bars):
		return span{s.start, end + int64(w.TTL)}, true
	case s.ofRedis(), s.silences():
		return span{s.start, end + s.lingers()}, true
	}
	return span{}, false
}

// delayed returns a strike other than the given one that could delay something between from and to; nil: there is none.
func (w *world) delayed(from, to int64, but *strike) *strike {
	return w.overlapping(from, to, but, func(s *strike) (span, bool) {
		r, ok := w.reach(s)
		if s.bars {
			r.to += int64(w.TTL)
		}
		return r, ok
	})
}

// hindered returns such a strike of that node, or of Redis.
func (w *world) hindered(n *node, from, to int64, but *strike) *strike {
	return w.overlapping(from, to, but, func(s *strike) (span, bool) {
		if s.node != nil && s.node != n {
			return span{}, false
		}
		return w.reach(s)
	})
}

// speaksOf returns the node whose instance the event names; nil: it is not known.
func (w *world) speaksOf(e *history.Event) *node {
	if i := w.instances[e.Instance]; i != nil {
		return i.node
	}
	return nil
}

// heard notes the first heartbeat that is set after a loss: who is frozen, or cannot reach Redis, does not see the loss. In an
// election no script sets it, and its epochs tell, but in histories that have none.
func (w *world) heard(e *history.Event) {
	if e.Kind == history.RedisBeat && e.Reason != snapshotReason && (w.epoch.value == "" || w.System != SystemElection) {
		w.noticed()
	}
}

// noticed: somebody sees now what Redis has lost, if nobody did before.
func (w *world) noticed() {
	for _, s := range w.losses {
		if s.heard == 0 && !s.open {
			s.heard = w.now
		}
	}
}

func (w *world) overlapping(from, to int64, but *strike, reach func(*strike) (span, bool)) *strike {
	for _, s := range w.strikes {
		if s == but || (but != nil && but.Kind.Scope() == fault.ScopeNone && s.index == but.index) {
			continue
		}
		if r, ok := reach(s); ok && r.from <= to && r.to >= from {
			return s
		}
	}
	return nil
}

func (w *world) strike(e *history.Event) {
	s := &strike{index: e.N, session: e.Session, start: e.T}
	if e.N >= 0 && e.N < int64(len(w.Plan.Faults)) {
		s.Fault = w.Plan.Faults[e.N]
	}
	if e.Reason != "" {
		s.Kind = fault.Kind(e.Reason)
	}
	if e.Node != "" {
		s.node = w.node(e.Node)
	}
	if n, ok := fault.SessionIndex(s.session); ok && n <= len(w.created) && w.sessions.find(s.session) == nil {
		s.session = w.created[n-1] // the plan's name for it
	}
	s.open = !s.Kind.Has(fault.Instant)
	w.strikes = append(w.strikes, s)
	if s.forgets() {
		w.losses = append(w.losses, s)
		w.epoch.lost(s.start)
	}
	w.open[s.index] = s
	w.challenges.struck(s)
	w.process(s)
	w.rest.struck(s)
	for _, c := range w.checkers {
		c.struck(s)
	}
}

// process notes what the strike does to processes.
func (w *world) process(s *strike) {
	switch {
	case s.Kind.Has(fault.Deletes):
		if s.session != "" {
			t := w.session(s.session)
			t.deletes = append(t.deletes, s.start)
		}
	case s.node == nil && s.Kind.Has(fault.Kills):
		for _, n := range w.nodes {
			if n.current != nil {
				n.killer = s
			}
		}
	case s.node == nil:
	case s.Kind.Has(fault.Kills):
		s.node.killer = s
	case s.Kind.Has(fault.Stops):
		s.node.asked = s
		if i := s.node.current; i != nil {
			i.leave = s
		}
	case s.Kind.Has(fault.Freezes):
		s.node.freeze(w.now)
	}
}

func (n *node) freeze(now int64) {
	if !n.frozen {
		n.frozenAt = now
	}
	n.frozen, n.ever = true, true
}

// thaw lets the process go on, unless another fault still holds it.
func (w *world) thaw(n *node) {
	for _, s := range w.open {
		if s.open && s.freezes() && s.node == n {
			return
		}
	}
	n.thawed(w.now)
}

// thawed ends a freeze, which a death does too: what is asked of the process' last moment is asked of a frozen one.
func (n *node) thawed(now int64) {
	if n.frozen {
		n.frozen, n.thawedAt = false, now
	}
}

func (w *world) heal(e *history.Event) {
	s := w.open[e.N]
	if s == nil {
		return
	}
	delete(w.open, e.N)
	s.end, s.open = e.T, false
	w.challenges.healed(s)
	s.bars = (s.silences() || s.ofRedis()) && !w.forgets(s) && w.missedFailover(s)
	if s.freezes() && s.node != nil {
		w.thaw(s.node)
	}
	w.rest.healed(s)
	for _, c := range w.checkers {
		c.healed(s)
	}
}

// frozenWithin reports whether the node's process was stopped at any moment between from and now.
func (n *node) frozenWithin(from int64) bool {
	return n != nil && n.ever && (n.frozen || n.thawedAt >= from)
}

// frozenSince reports whether the plan froze the instance's process at any moment since then.
func (w *world) frozenSince(inst string, since int64) bool {
	i := w.instances[inst]
	return i != nil && i.node.frozenWithin(since)
}

// stalled adds a time in which the host did not run the harness. Stalls come in order of their beginning.
func (w *world) stalled(from, to int64) {
	if to <= from {
		return
	}
	if n := len(w.stalls); n > 0 && from <= w.stalls[n-1].to {
		w.stats.Stalled += max(0, to-w.stalls[n-1].to)
		w.stalls[n-1].to = max(w.stalls[n-1].to, to)
		return
	}
	w.stats.Stalled += to - from
	w.stalls = append(w.stalls, span{from, to})
}

// stall is how much of the time between from and to the host stalled.
func (w *world) stall(from, to int64) (sum int64) {
	i := sort.Search(len(w.stalls), func(i int) bool { return w.stalls[i].to > from })
	for ; i < len(w.stalls) && w.stalls[i].from < to; i++ {
		sum += min(w.stalls[i].to, to) - max(w.stalls[i].from, from)
	}
	return sum
}
