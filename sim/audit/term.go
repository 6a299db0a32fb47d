package audit

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/sim/audit/logs"
)

// instance is one process, by its ID.
type instance struct {
	id    string
	clock hostClock
	run   int // of Redis' clock; 0: unknown
	epoch string
	fleet *fleet

	joined  bool  // the log has its start
	gone    int64 // time at which it said that it drained; 0: it has not
	first   int64
	last    int64 // time of its last entry
	before  int64 // time of the last entry before that one, at another time
	open    map[*lease]*term
	nextDue int64 // no term of it is overdue before

	renewals  int64 // entries of renewals
	renewedAt int64
	regular   int64 // its renewals have come regularly since
	trouble   int64 // time of its last entry of trouble; 0: none
	released  int64 // time of its last release because it stops; 0: none
	takeovers int   // of its leases, that are not judged yet
}

// terms returns the open terms in the order of their beginnings.
func (i *instance) terms() (all []*term) {
	for _, t := range i.open {
		all = append(all, t)
	}
	slices.SortFunc(all, func(s, t *term) int { return cmp.Compare(s.fence, t.fence) })
	return all
}

// forgive forgets that renewals are overdue.
func (i *instance) forgive() {
	for _, t := range i.open {
		t.late = 0
	}
}

// lease is what is known of a lease: its last terms.
type lease struct {
	name  string
	terms []*term // open ones, and those that have ended recently, in the order of the log
	top   *term   // the term with the highest fence
}

// begin adds a term.
func (l *lease) begin(t *term, now int64) {
	t.inst.open[l] = t
	l.terms = slices.DeleteFunc(l.terms, func(o *term) bool { return o.over != 0 && o.over < now })
	l.terms = append(l.terms, t)
	if l.top == nil || t.fence > l.top.fence {
		l.top = t
	}
}

// leases are those that the log names.
type leases map[string]*lease

func (all leases) get(name string) *lease {
	l := all[name]
	if l == nil {
		l = &lease{name: name}
		all[name] = l
	}
	return l
}

// prune forgets all but the last 10,000 leases that nobody owns, and returns how many.
func (all leases) prune(now int64) int {
	const unownedMax = 10_000
	var unowned []*lease
	for _, l := range all {
		if l.over() < now {
			unowned = append(unowned, l)
		}
	}
	if len(unowned) <= unownedMax {
		return 0
	}
	slices.SortFunc(unowned, func(l, m *lease) int { return cmp.Or(cmp.Compare(l.over(), m.over()), cmp.Compare(l.name, m.name)) })
	unowned = unowned[:len(unowned)-unownedMax]
	for _, l := range unowned {
		delete(all, l.name)
	}
	return len(unowned)
}

// over returns the time at which nothing of the lease is judged any more.
func (l *lease) over() int64 {
	last := forever.lo
	for _, t := range l.terms {
		if t.over == 0 {
			return forever.hi
		}
		last = max(last, t.over)
	}
	return last
}

// grant is what began a term.
type grant struct {
	fence int64
	ttl   int64
	redis int64 // Redis' time; 0: unknown
	run   int   // of Redis' clock
	epoch string
	began instant // as its owner logged it
}

// granted returns the instant of the grant, if Redis' time is known, else that of its entry.
func (g *grant) granted() instant {
	x := g.began
	if g.timed() {
		x.redis[1].time.lo = forever.lo
		x.redis[0] = reading{g.run, span{g.redis, g.redis}}
		x.by, x.abs.lo = nil, forever.lo
	}
	return x
}

// timed reports whether Redis' time of the grant is known, and by which clock.
func (g *grant) timed() bool { return g.redis != 0 && g.run != 0 }

// term is one ownership.
type term struct {
	grant
	inst        *instance
	lease       *lease
	confirmed   int64  // its host's time of the last entry that confirmed it
	steps       int    // of its host's clock before that
	until       int64  // end of the window of that entry; 0: not logged
	epoch       string // that its owner knew then
	beliefs     []belief
	doubt       bool
	failed      int64     // time of the failure
	rivals      []*term   // later terms whose overlap with it is judged
	late        int64     // host's time of the first entry after it was overdue; 0: none
	judged      bool      // it was overdue, and that is reported
	end         logs.Kind // Lost or Released; Other: it is open
	ended       instant
	why         string
	unconfirmed bool  // Redis did not confirm its release
	over        int64 // time at which it is forgotten; 0: open
}

// belief is a time in which the owner believes. Its end is between to and most.
type belief struct {
	from     instant
	to, most instant
	open     bool
}

// believes returns the belief that is open.
func (t *term) believes() *belief {
	if n := len(t.beliefs); n > 0 && t.beliefs[n-1].open {
		return &t.beliefs[n-1]
	}
	return nil
}

// window returns the bounds of the end of t's trust window by its host's clock. A renewal does not say when it was sent.
func (t *term) window(p *limits) span {
	if t.until != 0 {
		return span{t.until, t.until}
	}
	end := t.confirmed + t.ttl - p.margin
	return span{end - int64(p.RenewTimeout), end}
}

// at returns the instant at which t's host shows wall.
func (t *term) at(wall int64) instant { return t.inst.clock.instant(wall) }

// confirm begins or extends the owner's belief.
func (t *term) confirm(at, until int64) {
	t.confirmed, t.until, t.epoch, t.steps, t.doubt, t.late = at, until, t.inst.epoch, t.inst.clock.steps, false, 0
	t.inst.fleet.root().active = at
	if t.believes() == nil {
		t.beliefs = append(t.beliefs[max(0, len(t.beliefs)+1-beliefsMax):], belief{from: t.at(at), open: true})
	}
}

const beliefsMax = 16

// cease ends t's belief at its host's time at, or at the end of its window, which until says if it is not 0.
func (t *term) cease(p *limits, at, until int64) {
	b := t.believes()
	if b == nil {
		return
	}
	w := t.window(p)
	if until != 0 {
		w = span{until, until}
	}
	b.to, b.most, b.open = t.at(min(at, w.lo)), t.at(min(at, w.hi)), false
}

// ends returns the bounds of the end of the belief. An open one lasts until the window ends, or ended before if nobody says that it lasts.
func (t *term) ends(p *limits, b *belief) (least, most instant) {
	if !b.open {
		return b.to, b.most
	}
	w := t.window(p)
	return t.at(min(t.confirmed, w.lo)), t.at(w.hi)
}

// finish ends a term, which is forgotten at over.
func (t *term) finish(how logs.Kind, at int64, why string, over int64) {
	t.end, t.ended, t.why, t.over = how, t.at(at), why, over
	delete(t.inst.open, t.lease)
}
