package page

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

func (b *builder) draw(found []one) {
	bySession := map[int][]event{}
	all := &b.m.Events
	for i, s := range all.Session {
		bySession[int(s)] = append(bySession[int(s)], event{
			all.At[i] * perUs, all.Until[i] * perUs, history.Kind(all.Kind[i]), int(all.Node[i]), b.m.Strings[all.Instance[i]],
			b.m.Strings[all.Reason[i]],
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
	d.Lead = named(s.id)
	if two(s.one) {
		d.Lead = "one lease, two owners"
		d.Sentence, d.Steps = (&overlap{story: s}).explain()
	} else if o := outlivedLease(s); o != nil {
		d.Sentence, d.Steps = o.explain()
	} else {
		d.Sentence, d.Steps = newLate(s).explain()
	}
	if s.fault != nil {
		d.Fault = int(s.fault.N)
	}
	d.Owners, d.To, d.Deadline, d.Missed = s.owners, us(s.To), us(s.due), s.missed
	slices.SortStableFunc(d.Steps, func(x, y step) int { return cmp.Compare(x.At, y.At) })
	return d
}

// nameTokens replaces the tokens in a lease's key by the instances that own them. As in G1, a token belongs to the instance that first
// reports acquired while Redis holds it.
func (c *collector) nameTokens(events []event) {
	holder, owner := "", map[string]string{}
	for _, e := range events {
		switch e.kind {
		case history.RedisGranted:
			holder = e.instance
		case history.RedisDeleted:
			holder = ""
		case history.Acquired:
			if _, named := c.instances[holder]; !named {
				owner[holder] = cmp.Or(owner[holder], e.instance)
			}
		}
	}
	delete(owner, "")
	for i := range events {
		if e := &events[i]; e.kind.OfRedis() {
			e.instance = cmp.Or(owner[e.instance], e.instance)
		}
	}
}
