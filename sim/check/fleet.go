package check

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// fleet has the processes, the sessions and the terms of the run.
type fleet struct {
	*run
	nodes          map[string]*node
	instances      map[string]*instance
	sessions       []*session // in the order of their first mention
	byID           map[string]*session
	alive          int      // ready instances that have not left
	populatedSince int64    // when alive last became 1 after 0
	redundantSince int64    // when alive last became 2 after 1
	existing       int      // existing sessions that are not paused
	created        []string // sessions in order of creation
}

func (f *fleet) node(name string) *node {
	n := f.nodes[name]
	if n == nil {
		n = &node{name: name}
		f.nodes[name] = n
	}
	return n
}

func (f *fleet) instance(id string) *instance {
	i := f.instances[id]
	if i == nil {
		i = &instance{id: id, held: map[string]*term{}, renewals: map[*session]*renewal{}}
		f.instances[id] = i
	}
	return i
}

func (f *fleet) session(id string) *session {
	s := f.byID[id]
	if s == nil {
		s = &session{id: id}
		f.sessions, f.byID[id] = append(f.sessions, s), s
	}
	return s
}

func (f *fleet) sorted() []*session {
	return slices.SortedFunc(slices.Values(f.sessions), func(a, b *session) int { return cmp.Compare(a.id, b.id) })
}

// reporterOf returns the instance that reports the event. If a second process uses an ID while the first lives, it gets an ID of its own,
// also in the event. Otherwise the two would count as one owner.
func (f *fleet) reporterOf(e *history.Event) *instance {
	i := f.instance(e.Instance)
	lives := i.process != nil && i.process.exits == i.exits
	if e.Node == "" || lives && i.process.name == e.Node {
		return i
	}
	name := e.Instance + "@" + e.Node
	if !lives && f.instances[name] == nil {
		i.process = f.node(e.Node)
		i.exits = i.process.exits
		return i
	}
	e.Instance = name
	return f.instance(name)
}

func (f *fleet) join(inst *instance, asks bool) {
	if inst.ready || inst.gone { // a later message must not change how the instance is judged
		return
	}
	inst.ready, inst.since, inst.asks = true, f.now, asks
	f.alive++
	switch f.alive {
	case 1:
		f.populatedSince = f.now
	case 2:
		f.redundantSince = f.now
	}
}

func (f *fleet) leave(inst *instance) {
	if inst.ready && !inst.gone {
		f.alive--
	}
	inst.gone = true
}

// gone reports whether the instance with that ID has stopped or ended.
func (f *fleet) gone(id string) bool {
	i := f.instances[id]
	return i != nil && i.gone
}

// leftBehind returns the time in which Redis holds, or last held, a lease whose owner is gone.
func (f *fleet) leftBehind(s *session) span {
	k := s.granted
	switch {
	case k == nil || !f.gone(k.holder):
		return s.left
	case s.left.to >= k.since: // the same lease, or one that follows at once
		return span{s.left.from, k.until}
	}
	return span{k.since, k.until}
}

// part describes an instance and its fence as a participant in a break.
func (f *fleet) part(s *session, inst string, fence int64) *term {
	return &term{session: s, inst: f.instance(inst), fence: fence}
}

// availableSince returns the earliest time, not before since, from which an instance has been alive.
func (f *fleet) availableSince(since int64) int64 {
	if !f.allows(nobodyThere) {
		return since
	}
	if f.alive == 0 {
		return f.now
	}
	return max(since, f.populatedSince)
}

// candidateSince returns when an instance other than but can take part, after its start delay; 0 without such an instance or delay.
func (f *fleet) candidateSince(but *instance) int64 {
	if f.startDelay() == 0 || !f.allows(startOfMembers) {
		return 0
	}
	first := never
	for _, i := range f.instances {
		if i.ready && !i.gone && i != but {
			first = min(first, i.since)
		}
	}
	if first == never {
		return 0
	}
	return first + f.startDelay()
}

// hit records the injection's effects on processes.
func (f *fleet) hit(inj *injection) {
	if inj.Has(fault.Deletes) && inj.session != "" {
		s := f.session(inj.session)
		s.deletes = append(s.deletes, inj)
	}
	for _, n := range f.nodes {
		switch all := inj.node == nil && n.current != nil; {
		case inj.Has(fault.Kills) && (all || n == inj.node):
			n.killer = inj
		case n != inj.node:
		case inj.Has(fault.Stops):
			n.asked = inj
			if n.current != nil {
				n.current.leave = inj
			}
		case inj.Has(fault.Freezes):
			if !n.frozen() {
				n.freezes = append(n.freezes, span{f.now, never})
			}
		}
	}
}

func (f *fleet) opens(t *term) {
	t.session.terms = append(t.session.terms, t)
	t.inst.held[t.session.id] = t
	t.session.history = append(t.session.history, t)
}

// trust records that the instance believes in the term from now on, until the term's window closes; 0: until a message of the
// instance ends the belief.
func (f *fleet) trust(t *term, until int64) {
	if until != 0 && until <= f.now {
		return // the answer came after the end of its own window
	}
	if !t.believes(f.now) {
		t.beliefs = append(t.beliefs, belief{from: f.now, seen: f.seen})
	}
	t.beliefs[len(t.beliefs)-1].to = cmp.Or(until, never)
}

// cease records that the instance no longer believes in the term.
func (f *fleet) cease(t *term) {
	if t != nil && t.believes(f.now) {
		t.beliefs[len(t.beliefs)-1].to = f.now
	}
}

// lastFreeze returns the last freeze of the instance's process that began by at; an empty span if there was none.
func (f *fleet) lastFreeze(inst string, at int64) span {
	if i := f.instances[inst]; i != nil {
		return i.node.lastFreeze(at)
	}
	return span{to: -never}
}

// woke reports whether the process of the node was frozen until just before at, so that it cannot know yet.
func (f *fleet) woke(n *node, at int64) bool { return n.frozenWithin(at-thawGrace) && f.allows(thaws) }

// sentAsleep reports whether a freeze may have delayed a request that reached the target in this time, or the end of that request.
func (f *fleet) sentAsleep(inst string, from, to int64) bool {
	return f.lastFreeze(inst, to).to >= from-sentLate && f.allows(frozenSenders)
}

// tabulate adds the event to the tables of its lease.
func (f *fleet) tabulate(s *session, e *history.Event) {
	switch e.Kind {
	case history.Acquired, history.Renewed:
		f.reports(s, e)
	case history.RedisExtended:
		s.covers(e)
	case history.PollStart:
		if s.started == nil {
			s.started = map[string]int64{}
		}
		s.started[e.Instance] = e.T
	case history.PollCancelled:
		for _, p := range s.serving {
			if p.inst == e.Instance && p.hungUp == 0 && e.T > p.at {
				p.hungUp = f.seen
			}
		}
	case history.Arrived, history.Rejected:
		p := &poll{
			n: e.N, inst: e.Instance, fence: e.Fence, at: e.T, started: s.takeStart(e.Instance), seen: f.seen,
			refused: e.Kind == history.Rejected, end: never,
		}
		if s.polls = append(s.polls, p); !p.refused {
			p.meets = slices.Clone(s.serving)
			s.serving = append(s.serving, p)
		}
	case history.Served, history.Aborted:
		s.serving = slices.DeleteFunc(s.serving, func(p *poll) bool {
			if p.n == e.N {
				p.end, p.aborted = e.T, e.Kind == history.Aborted
			}
			return p.n == e.N
		})
	}
}

func (f *fleet) reports(s *session, e *history.Event) {
	k, acquired := s.granted, e.Kind == history.Acquired
	if k != nil && k.reporter == "" && acquired && e.T < k.until {
		k.reporter = e.Instance
	}
	if k != nil && k.until != 0 && e.Until > k.until+int64(stampAllowance) && cmp.Or(k.owner, k.reporter) == e.Instance {
		s.beyond = append(s.beyond, window{e.Instance, e.Fence, e.T, e.Until, f.seen, k, k.until, never})
	}
	if n := len(s.reported); acquired && (e.Until == 0 || e.Until > e.T) && (n == 0 || e.Fence == 0 || e.Fence >= s.reported[n-1].fence) {
		s.reported = append(s.reported, &grant{owner: e.Instance, fence: e.Fence, since: e.T, seen: f.seen})
	}
}

// who describes the instance with that ID.
func (f *fleet) who(id string) string { return f.instance(id).who() }
