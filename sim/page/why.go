package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/report"
)

// Units: times of a break are ns here. Those of the model's faults and marks are ms, those of its events µs.
const (
	perMs = int64(time.Millisecond)
	perUs = int64(time.Microsecond)
)

// untilSlack is how much longer than Redis' grant a node may trust its lease, because its messages arrive late.
const untilSlack = 5 * time.Millisecond

// deletedBy is the largest distance of a deletion from the event that explains it.
const deletedBy = 20 * time.Millisecond

// event is a kept event, with its times in ns.
type event struct {
	at, until int64
	kind      history.Kind
	node      int
	instance  string
	number    int64
	reason    string
}

type story struct {
	*builder
	one
	session int
	name    string // short name of the session
	owners  []owner
	events  []event // events of the session, in order
	fault   *spell
	due     int64
	missed  string
	why     string
	step2   string // text of the step at the missed deadline
}

func (b *builder) draw(found []one) {
	bySession := map[int][]event{}
	all := &b.m.Events
	for i, s := range all.Session {
		bySession[int(s)] = append(bySession[int(s)], event{
			all.At[i] * perUs, all.Until[i] * perUs, history.Kind(all.Kind[i]), int(all.Node[i]), b.m.Strings[all.Instance[i]],
			int64(all.Number[i]), b.m.Strings[all.Reason[i]],
		})
	}
	for _, events := range bySession {
		b.c.nameTokens(events)
	}
	for _, x := range found {
		s := &story{builder: b, one: x, session: -1}
		if i, known := b.c.sessions[x.Session]; known {
			s.session, s.name = i, b.m.short(b.m.Sessions[i].Name)
			s.events = bySession[i]
		}
		b.m.Breaks = append(b.m.Breaks, s.drawing())
	}
}

func (s *story) drawing() drawing {
	for _, o := range s.Owners {
		n, known := s.c.instances[o.Instance]
		if !known {
			n = -1
		}
		s.owners = append(s.owners, owner{n, s.nameOf(n, o.Instance), exact(o.Fence)})
	}
	if len(s.owners) == 0 || slices.Contains([]string{"G2", "E2", "I1"}, s.id) {
		s.users()
	}
	s.accused()
	if len(s.owners) > 1 && s.owners[0].Name == s.owners[1].Name {
		s.owners[0].Name, s.owners[1].Name = "the old process of "+s.owners[0].Name, "the new process of "+s.owners[1].Name
	}
	if !two(s.one) {
		s.lead()
	}
	s.due = s.Deadline
	s.cause()
	d := drawing{
		Guarantee: s.id, Session: s.session, From: us(s.From), To: us(s.To), Owners: s.owners, Fault: -1, First: !s.more,
		Watched: len(s.events) > 0,
	}
	d.Leases = s.c.used[s.Session]
	if !d.Watched {
		d.Said, d.Lines = s.said(s.Text), s.evidence()
	}
	if two(s.one) {
		d.Sentence, d.Steps = s.overlap()
		d.Lead = "one lease, two owners"
	} else {
		d.Sentence, d.Steps = s.other()
		d.Lead = named(s.id)
	}
	if s.fault != nil {
		d.Fault = int(s.fault.N)
	}
	d.Owners, d.To, d.Deadline, d.Missed = s.owners, us(s.To), us(s.due), s.missed
	slices.SortStableFunc(d.Steps, func(x, y step) int { return cmp.Compare(x.At, y.At) })
	return d
}

// evidence returns the judge's events of the guarantee as lines. They belong to its first break only.
func (s *story) evidence() (lines []string) {
	for _, v := range s.r.Guarantees {
		if v.ID != s.id || s.more {
			continue
		}
		for i := range v.Evidence[:min(len(v.Evidence), linesMax)] {
			lines = append(lines, shown(report.Line(&v.Evidence[i])))
		}
	}
	return lines
}

const linesMax = 60

// users adds the last users to the break's owners. A break without a lease has no other owners, and one of two pollers may own nothing.
func (s *story) users() {
	for i := range slices.Backward(s.events) {
		e := &s.events[i]
		known := slices.ContainsFunc(s.owners, func(o owner) bool { return o.Node == e.node })
		if e.at <= s.From+perMs && e.node >= 0 && !known && len(s.owners) < 2 && e.kind == history.Arrived {
			s.owners = append(s.owners, owner{Node: e.node, Name: s.nameOf(e.node, "")})
		}
	}
}

func (s *story) lead() {
	had, since, fence := -1, int64(-1), exact(0)
	all := &s.m.Terms
	for i, of := range all.Session {
		if int(of) == s.session && all.From[i] <= ms(s.From) && all.From[i] > since {
			had, since, fence = int(all.Node[i]), all.From[i], all.Fence[i]
		}
	}
	if had >= 0 && !slices.ContainsFunc(s.owners, func(o owner) bool { return o.Node == had }) {
		s.owners = append(s.owners, owner{had, s.nameOf(had, ""), fence})
	}
	slices.SortStableFunc(s.owners, func(x, y owner) int { return less(x.Node == had, y.Node == had) })
}

func (s *story) nameOf(node int, instance string) string {
	if node >= 0 {
		return s.m.Nodes[node].Name
	}
	return shown(instance)
}

func (s *story) cause() {
	if s.Fault == nil {
		return
	}
	for i := range s.m.Faults {
		if f := &s.m.Faults[i]; f.N == s.Fault.N {
			s.fault = f
		}
	}
}

// struck returns the fault's effect as a main clause in the past perfect; "" if there is no fault.
func (s *story) struck() string {
	f := s.fault
	if f == nil {
		return ""
	}
	whom := "Redis"
	if f.Node >= 0 {
		whom = s.m.Nodes[f.Node].Name
	}
	a := "A "
	if strings.ContainsAny(f.Kind[:min(1, len(f.Kind))], "aeiou") {
		a = "An "
	}
	switch f.Kind {
	case "blackhole", "cut", "requests-lost", "replies-lost", "flapping":
		return a + f.Kind + " had cut " + whom + " off"
	case "freeze", "check-send", "suspend", "redis-freeze":
		return a + f.Kind + " had stopped " + whom
	case "crash", "crash-all", "terminate", "leave":
		return a + f.Kind + " had ended " + cmp.Or(map[bool]string{true: "the nodes"}[f.Node < 0], whom)
	}
	return a + f.Kind + " had struck " + whom
}

// before returns the latest event, not after at, for which is returns true; nil if there is none.
func (s *story) before(at int64, is func(e *event) bool) *event {
	for i := range slices.Backward(s.events) {
		if e := &s.events[i]; e.at <= at && is(e) {
			return e
		}
	}
	return nil
}

func (s *story) lastOf(instance string, at int64, kinds ...history.Kind) *event {
	return s.before(at, func(e *event) bool { return e.instance == shown(instance) && slices.Contains(kinds, e.kind) })
}

func (s *story) granted() *event { return s.grantOf(shown(s.Owners[0].Instance)) }

func (s *story) grantOf(id string) *event {
	return s.before(s.From, func(e *event) bool {
		return (e.kind == history.RedisGranted || e.kind == history.RedisExtended) && (e.instance == id || e.instance == "") && e.until > 0 &&
			e.until <= s.From+int64(s.p.TTL*101/100) // a clock may run slow within the margin
	})
}

// forgot returns when Redis returned without its data while the first owner had its lease; false if it did not.
func (s *story) forgot() (at int64, what string, ok bool) {
	since := s.lastOf(s.Owners[0].Instance, s.From, history.Acquired)
	for _, m := range s.m.Marks {
		t := m.At * perMs
		empty := m.Kind == history.RedisFlushed.String() || m.Kind == history.RedisUp.String() && m.Why == "empty"
		if empty && t <= s.From && t+int64(s.p.TTL) > s.From && (since == nil || since.at < t) {
			at, ok = t, true
		}
	}
	if !ok {
		return 0, "", false
	}
	what = "Redis, which came back empty,"
	for _, f := range s.m.Faults {
		if f.Node < 0 && f.From*perMs <= at+perMs && at <= f.To*perMs+int64(time.Second) {
			what = "A " + f.Kind
		}
	}
	return at, what, true
}

// because explains why two owners trusted one lease, by the first rule that fits.
func (s *story) because() {
	a, z := s.owners[0].Name, s.owners[1].Name
	said := s.lastOf(s.Owners[0].Instance, s.From, history.Acquired, history.Renewed)
	lead := func(then string) string {
		if c := s.struck(); c != "" {
			return c + ": " + then
		}
		return strings.ToUpper(then[:1]) + then[1:]
	}
	granted := s.granted()
	if s.split(granted, a, z) {
		return
	}
	if at, what, ok := s.forgot(); ok {
		s.due, s.missed = at+int64(s.p.TTL), z+" had to wait until here (one TTL)"
		s.why = fmt.Sprintf("%s had erased the lease that %s held, and %s did not wait one TTL (until %s) before it acquired.", what, a, z,
			when(s.due))
		s.step2 = fmt.Sprintf("%s may trust its lease until here; before %s nobody else may be given it.", a, when(s.due))
		return
	}
	if s.begins() == "renews" && s.renewsAnothers(1, 0, s.From-int64(s.p.RenewTimeout), s.From) {
		s.due = 0 // the first owner trusts rightly
		s.why = lead(fmt.Sprintf("%s renewed the lease of %s without comparing its owner.", z, a))
		return
	}
	if said != nil && said.until == 0 && granted != nil {
		s.ends(granted, a)
		s.why = lead(fmt.Sprintf("its lease ended at Redis at %s, but %s had set itself no deadline (no “until”) and trusted on.",
			when(s.due), a))
		s.step2 = fmt.Sprintf("The lease of %s ends at Redis. By here it must have stopped trusting. It gave no deadline (no “until”), "+
			"so it never does.", a)
		return
	}
	if key := s.erased(granted); key != nil {
		s.due, s.missed = key.at, "the key of "+a+" was deleted"
		s.why = fmt.Sprintf("The key of %s was deleted at %s, %s before its end, %s.", a, when(key.at), plainly(granted.until-key.at),
			s.eraser(key))
		s.step2 = fmt.Sprintf("The key is deleted %s; %s knows nothing of it.", s.eraser(key), a)
		return
	}
	if said != nil && granted != nil && said.until > granted.until+int64(untilSlack) {
		s.ends(granted, a)
		s.why = lead(fmt.Sprintf("%s trusted until %s, %s longer than Redis had granted it (until %s).", a, when(said.until),
			plainly(said.until-granted.until), when(s.due)))
		s.step2 = fmt.Sprintf("The lease of %s ends at Redis. Its own deadline, %s, is too late.", a, when(said.until))
		return
	}
	if s.due != 0 {
		s.missed = "the lease of " + a + " ended at Redis"
		s.step2 = fmt.Sprintf("By here %s must have stopped trusting.", a)
	}
	s.why = s.last()
}

func (s *story) ends(granted *event, a string) {
	s.due, s.missed = granted.until, "deadline: the lease of "+a+" ended at Redis"
}

func (s *story) last() string {
	if s.fault == nil {
		return "No fault of the plan explains it."
	}
	whom := ""
	switch f := s.fault; {
	case f.Node >= 0:
		whom = " on " + s.m.Nodes[f.Node].Name
	case f.Session >= 0:
		whom = " on session " + s.m.short(s.m.Sessions[f.Session].Name)
	}
	return fmt.Sprintf("The last fault before it was %s%s, at %s.", s.fault.Kind, whom, when(s.fault.From*perMs))
}

// erased returns the deletion of the first owner's key before the key's end; nil if there is none.
func (s *story) erased(granted *event) *event {
	if granted == nil {
		return nil
	}
	key := s.before(s.From, func(e *event) bool { return e.kind == history.RedisDeleted && s.server(e) == s.server(granted) })
	if key == nil || key.at < granted.at || key.at >= granted.until-int64(untilSlack) {
		return nil
	}
	return key
}

// eraser describes who deleted the key. A delayed release that does not compare owners may have deleted another owner's key.
func (s *story) eraser(key *event) string {
	for _, e := range s.events {
		if e.kind == history.Released && e.at >= key.at-int64(deletedBy) && e.at <= key.at+int64(deletedBy) {
			return "when " + s.nameOf(e.node, e.instance) + " released"
		}
	}
	for _, f := range s.m.Faults {
		if at := f.From * perMs; f.Kind == "key-delete" && at >= key.at-int64(deletedBy) && at <= key.at+int64(deletedBy) {
			return "by the plan’s foreign hand (key-delete)"
		}
	}
	late := s.before(key.at, func(e *event) bool { return e.kind == history.Released })
	if late != nil && late.at >= key.at-2*int64(s.p.TTL) {
		return fmt.Sprintf("when the release of %s came, %s late", s.nameOf(late.node, late.instance), plainly(key.at-late.at))
	}
	return "and it is not known by whom"
}

func isGrant(e *event) bool { return e.kind == history.RedisGranted }

func (s *story) overlap() ([]part, []step) {
	s.because()
	a, z := s.owners[0].Name, s.owners[1].Name
	sentence := []part{
		{a, "a"},
		{Text: " and "},
		{z, "b"},
		{Text: " both trusted the lease of session "},
		{s.name, "code"},
		{Text: " for "},
		{plainly(s.To - s.From), "red"},
		{Text: " from " + when(s.From) + ". " + s.why + s.lasted()},
	}
	steps := s.faultStep()
	if s.due != 0 && s.step2 != "" {
		steps = append(steps, step{us(s.due), s.step2})
	}
	begins := s.begins()
	third := fmt.Sprintf("%s %s while %s still trusts. Two owners from here.", z, begins, a)
	if s.due > s.From {
		third = fmt.Sprintf("%s %s, %s too early. Two owners from here.", z, begins, plainly(s.due-s.From))
	} else if g := s.before(s.From, isGrant); begins == "acquires" && g != nil && g.instance == shown(s.Owners[1].Instance) {
		third = fmt.Sprintf("%s grants the lease to %s, which acquires it. Two owners from here.", cmp.Or(s.server(g), "Redis"), z)
	}
	steps = append(steps, step{us(s.From), third}, step{us(s.To), fmt.Sprintf("%s: %s with two owners.", s.ending(), plainly(s.To-s.From))})
	return sentence, steps
}

func (s *story) faultStep() []step {
	f := s.fault
	if f == nil {
		return nil
	}
	text := "Fault “" + f.Kind + "”"
	if f.Node >= 0 {
		text += " on " + s.m.Nodes[f.Node].Name
	}
	until := ""
	if f.To > f.From {
		until = " until " + when(f.To*perMs)
	}
	switch f.Kind {
	case "blackhole", "cut":
		text += ": nothing passes between it and Redis" + until
	case "freeze", "check-send", "suspend":
		text += ": the process stands still" + until
	case "redis-wipe", "redis-flush":
		text += ": Redis forgets all leases"
	default:
		text += until
	}
	if len(s.Owners) > 0 {
		if g := s.granted(); g != nil && g.at < f.To*perMs && g.at < s.From {
			text += ". Redis executed the last renewal of " + s.owners[0].Name + " at " + when(g.at)
		}
	}
	return []step{{f.From * 1000, text + "."}}
}

func (s *story) ending() string {
	for _, e := range s.events {
		own := slices.IndexFunc(s.Owners, func(o check.Owner) bool { return shown(o.Instance) == e.instance })
		if own < 0 || e.at < s.To-perMs || e.at > s.To+perMs {
			continue
		}
		name := s.owners[own].Name
		why := ""
		if e.reason != "" {
			why = ", “" + e.reason + "”"
		}
		switch e.kind {
		case history.Lost:
			return name + " learns of it and lets go (lost" + why + ")"
		case history.Released:
			return name + " releases it" + why
		case history.RenewFailed:
			return name + " cannot renew and stops trusting" + why
		}
	}
	for _, o := range s.owners {
		if o.Node >= 0 && slices.ContainsFunc(s.m.Nodes[o.Node].Lives, func(l [2]int64) bool { return l[1] == ms(s.To) }) {
			return o.Name + " stops trusting only because its process ends"
		}
	}
	if s.To >= s.m.End*perMs {
		return "The run ends while both trust"
	}
	return "A trust window closes"
}
