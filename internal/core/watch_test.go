package core

import (
	"maps"
	"slices"

	"github.com/leasestorm/leasestorm/internal/place"
)

// Witness is a core that sees what each step makes of each lease: in which state it was, what happened to it, and in which state it is then.
type Witness struct {
	*Core
	Seen func(Happening)
}

// Happening is what one step made of one lease. Mostly one thing happens to it; where its time had come as well, more than one.
type Happening struct {
	Lease  string
	From   string
	Events []string
	To     string
}

// states are what l is in: one state, or, of a lease that is held, what its term is worth and what becomes of its work, neither of
// which depends on the other.
func (l *lease) states() []string {
	switch {
	case l == nil:
		return []string{"none"}
	case l.Phase() == owned:
		return []string{l.trust(), l.work()}
	case l.Phase() == releasing:
		return []string{"releasing"}
	case l.Phase() == acquiring:
		return []string{map[next]string{nextNothing: "acquiring", nextAgain: "again", nextInherit: "inherit"}[l.next]}
	case l.stuck:
		return []string{"stuck"}
	default:
		return []string{map[next]string{nextNothing: "reading", nextRead: "read", nextAcquire: "acquire"}[l.next]}
	}
}

// states are those of all leases that c has an entry of.
func (c *Core) states() map[string][]string {
	all := map[string][]string{}
	for id, l := range c.entries.leases {
		all[id] = l.states()
	}
	return all
}

func (l *lease) trust() string {
	switch {
	case l.Forgotten():
		return "forgotten"
	case l.Uncertain():
		return "uncertain"
	default:
		return "certain"
	}
}

func (l *lease) work() string {
	switch {
	case l.yielding:
		return "yielding"
	case l.next == nextYield:
		return "missing"
	default:
		return "kept"
	}
}

var trusts = []string{"certain", "uncertain", "forgotten"}
var works = []string{"kept", "missing", "yielding"}

// apart reports whether two states are of two things that go on beside each other.
func apart(a, b string) bool {
	return slices.Contains(trusts, a) && slices.Contains(works, b) || slices.Contains(works, a) && slices.Contains(trusts, b)
}

// before is what is known of a core before a step.
type before struct {
	states  map[string][]string
	epoch   string
	silent  bool
	outside bool
	news    bool                // the answer has the news that a discovery asked for
	read    map[int32]bool      // instances whose heartbeats were read
	owners  map[string]int32    // by session
	due     map[string][]string // what the timers that are due do to each lease
	tick    bool
	main    func(id string) string // what the event itself does to a lease, as far as that is known before
}

// Step is the core's, seen.
func (w *Witness) Step(ev Event) Effects {
	c := w.Core
	b := w.before(&ev)
	eff := c.Step(ev)
	if err := c.asleep(); err != nil {
		panic(err)
	}
	clock := slices.ContainsFunc(eff.Tells, func(t Tell) bool { return t.Kind == TellClock && t.Cause == CauseClock })
	ids := map[string]bool{}
	for id := range b.states {
		ids[id] = true
	}
	for id := range c.entries.leases {
		ids[id] = true
	}
	for _, id := range append(slices.Clone(ev.IDs), ev.ID) {
		ids[id] = id != "" || ids[id]
	}
	for _, id := range ev.Notice.IDs {
		ids[id] = true
	}
	for _, id := range c.table.Sessions().IDs {
		ids[id] = true
	}
	for id := range b.owners {
		ids[id] = true
	}
	delete(ids, "")
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		var events []string
		if clock {
			events = append(events, "clock")
		}
		events = append(events, b.due[id]...)
		if b.tick {
			events = append(events, "tick")
		}
		events = append(events, w.after(&ev, b, id)...)
		w.tell(id, b.states[id], events, c.entries.leases[id].states())
	}
	return eff
}

func (w *Witness) tell(id string, from, events, to []string) {
	if from == nil {
		from = []string{"none"}
	}
	if len(events) == 0 {
		events = []string{"other"}
	}
	for _, a := range from {
		for _, b := range to {
			if !apart(a, b) {
				w.Seen(Happening{id, a, events, b})
			}
		}
	}
}

func (w *Witness) before(ev *Event) *before {
	c := w.Core
	b := &before{
		states: c.states(), due: map[string][]string{}, owners: map[string]int32{}, read: map[int32]bool{}, epoch: c.k.Epoch(), silent: c.silence.on,
		outside: c.k.Outside(), tick: c.nextRenew != 0 && c.nextRenew <= ev.Now.Mono,
		news: ev.Answer.News != nil && c.table.UnderWay() == ev.Answer.Seq,
	}
	for i, id := range c.table.Sessions().IDs {
		b.owners[id] = c.table.Owner(int32(i))
	}
	if in := c.req.underWay.find(ev.Answer.Seq); ev.Kind == EvAnswer && ev.Answer.Failure == FailNone && in != nil && in.op.Kind == OpNodes {
		for _, it := range in.op.Items {
			if i, _ := c.members.Find(it.ID); i > 0 {
				b.read[i] = true
			}
		}
	}
	b.main = w.main(ev)
	late, over := slices.Clone(c.timers.Timers), map[uint64]bool{}
	for len(late) > 0 && late[0].At <= ev.Now.Mono {
		switch t := late.Take().Of; {
		case !c.live(&t):
		case t.kind == timerLease:
			b.due[t.l.ID()] = append(b.due[t.l.ID()], "timer")
		case t.kind == timerOp && !over[t.n]:
			over[t.n] = true
			if ev.Kind == EvAnswer && ev.Answer.Seq == t.n {
				b.main = func(string) string { return "" } // it comes too late
			}
			in := c.req.underWay.find(t.n)
			for _, l := range in.leases {
				if l.Op() == t.n {
					b.due[l.ID()] = append(b.due[l.ID()], asked(in.op.Kind)+" failed")
				}
			}
		}
	}
	return b
}

// asked is what a lease was asked for with a request of kind, as the table names it.
func asked(kind OpKind) string {
	return map[OpKind]string{OpAcquire: "acquire", OpRenew: "renew", OpReassert: "renew", OpRelease: "release", OpObserve: "observe"}[kind]
}

// main returns what ev itself does to each lease, as far as that is known before it is taken.
func (w *Witness) main(ev *Event) func(id string) string {
	c := w.Core
	if name, ok := map[EventKind]string{EvWant: "want", EvDrop: "drop", EvAbandon: "abandon", EvRecovered: "recovered"}[ev.Kind]; ok {
		return func(id string) string {
			if id == ev.ID || slices.Contains(ev.IDs, id) {
				return name
			}
			return ""
		}
	}
	said := ""
	switch {
	case ev.Kind == EvNotice:
		return w.heard(&ev.Notice)
	case ev.Kind == EvAnswer:
		return w.answered(&ev.Answer)
	case ev.Kind == EvDrain && !c.own.Leaving():
		said = "drain"
	case ev.Kind == EvSubscribed:
		said = "subscribed"
	}
	return func(string) string { return said }
}

func (w *Witness) heard(n *Notice) func(id string) string {
	c := w.Core
	deaf := n.From == c.cfg.Instance || !c.own.Started() || c.own.Leaving()
	return func(id string) string {
		k := slices.Index(n.IDs, id)
		if deaf || k < 0 {
			return ""
		}
		switch n.Kind {
		case NoticeTaken:
			return "taken"
		case NoticeFreed:
			switch to := n.heir(k); {
			case to == n.From:
				return "freed to nobody"
			case to == c.cfg.Instance:
				return "freed to it"
			case to != "":
				return "freed to another"
			default:
				return "freed to any"
			}
		default:
			return ""
		}
	}
}

var outcomeEvents = map[OpKind]map[Outcome]string{
	OpAcquire: {OutGranted: "granted", OutAdopted: "granted", OutHeld: "held", OutQuarantine: "blocked", OutWrongType: "foreign"},
	OpRenew: {OutRenewed: "renewed", OutReasserted: "renewed", OutLost: "lost", OutSuperseded: "lost", OutWrongType: "lost",
		OutClosed: "closed"},
	OpRelease: {OutReleased: "released", OutLost: "released", OutWrongType: "released"},
	OpObserve: {OutHeld: "observed held", OutFree: "observed free", OutWrongType: "observed foreign"},
}

func (w *Witness) answered(a *Answer) func(id string) string {
	c := w.Core
	in := c.req.underWay.find(a.Seq)
	if in == nil {
		return func(string) string { return "" }
	}
	op := in.op
	of := map[string]int{}
	for i, l := range in.leases {
		if l.Op() == op.Seq {
			of[l.ID()] = i
		}
	}
	failed := a.Failure != FailNone || c.k.Judge(&op, a.about()).Failure != FailNone
	kind := op.Kind
	if kind == OpReassert {
		kind = OpRenew
	}
	return func(id string) string {
		i, ok := of[id]
		if !ok {
			return ""
		}
		var r Result
		if i < len(a.Results) {
			r = a.Results[i]
		}
		name := outcomeEvents[kind][r.Outcome]
		switch {
		case failed || name == "" && !a.Stale:
			return asked(kind) + " failed"
		case a.Stale && kind != OpObserve:
			return asked(kind) + " stale"
		case kind == OpRelease && r.Outcome == OutLost && r.Owner == c.cfg.Instance:
			return "overtaken"
		default:
			return name
		}
	}
}

// after returns what the event itself did to a lease, when it is known what it did to the core.
func (w *Witness) after(ev *Event, b *before, id string) (events []string) {
	c := w.Core
	main := b.main(id)
	held := len(b.states[id]) == 2
	other := b.epoch != "" && b.epoch != c.k.Epoch()
	if other && held {
		main = "" // what it was asked for is void
	}
	switch {
	case main != "":
		events = append(events, main)
	case other:
		events = append(events, "epoch")
	case c.k.Outside() && !b.outside:
		events = append(events, "outside")
	case b.silent && !c.silence.on:
		events = append(events, "heard")
	}
	if said := w.fleetSaid(ev, b, id); said != "" {
		events = append(events, said)
	}
	unanswered := main == "acquire failed" || main == "renew failed" || len(b.due[id]) > 0 && b.due[id][len(b.due[id])-1] != "timer"
	if c.silence.on && !b.silent && !unanswered {
		events = append(events, "silence")
	}
	return events
}

// fleetSaid returns what an answer showed of the session that a lease is of, or of the instance that holds it.
func (w *Witness) fleetSaid(ev *Event, b *before, id string) string {
	c, a := w.Core, &ev.Answer
	switch o, ok := b.owners[id]; {
	case !c.cfg.Place || ev.Kind != EvAnswer:
		return ""
	case a.Look == nil && !b.news:
		if ok && b.read[o] {
			return "heartbeat"
		}
		return ""
	case a.Look == nil && c.table.Reading(), c.balancer.out(),
		a.Look != nil && c.table.Sessions() != a.Look.Sessions:
		return ""
	}
	s := c.table.Find(id)
	if s < 0 {
		return "look gone"
	}
	owner := c.table.Owner(s) // a notice that was heard since the look was sent counts more than the look
	if a.Look != nil && len(b.states[id]) == 2 {
		owner = place.Nobody
		if i, known := c.members.Find(a.Look.Owners[s]); known {
			owner = i
		}
	}
	switch {
	case owner == place.Nobody:
		return "look free"
	case owner == 0:
		return "look ours"
	case c.members.Alive(owner):
		return "look held"
	default:
		return "look dead"
	}
}
