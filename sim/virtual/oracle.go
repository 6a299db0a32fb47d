package virtual

import (
	"fmt"
	"slices"
	"time"
)

// oracle knows every clock. It checks at each instant what the instances believe (G1) and the fences of their terms (G3).
type oracle struct {
	*timeline
	fleet    *fleet
	sessions []judged // by session
}

// judged is what the oracle knows of a session.
type judged struct {
	believed []believer
	granted  int64 // highest fence granted to an instance
	excused  int64 // true time until which a deleted key excuses overlaps
}

// believer is one term, from the instance's acquired to its lost, released or death.
type believer struct {
	node, term int32
	gen        uint32
}

// believes returns IsOwned of that process at this instant, on that machine's clocks.
func (o *oracle) believes(b believer) bool {
	n := o.fleet.nodes[b.node]
	t := &n.shell.terms[b.term]
	return n.alive && t.gen == b.gen && n.shell.trusts(t, o.t)
}

// of returns what the oracle knows of a session.
func (o *oracle) of(s int32) *judged {
	for len(o.sessions) <= int(s) {
		o.sessions = append(o.sessions, judged{})
	}
	return &o.sessions[s]
}

// owners returns the terms of a session that are believed now.
func (o *oracle) owners(s int32) (all []believer) {
	for _, b := range o.of(s).believed {
		if o.believes(b) {
			all = append(all, b)
		}
	}
	return all
}

// begins records a term and judges it: no other instance may believe, and the fence must be higher than all earlier ones.
func (o *oracle) begins(b believer, s int32, fence int64) {
	se := o.of(s)
	if fence != 0 && fence <= se.granted && o.t > se.excused {
		o.out.Falls++
		o.first("fence %d of %s told to %s after %d", fence, o.fleet.app.sessions[s].id, o.fleet.nodes[b.node].instance, se.granted)
	}
	se.granted = max(se.granted, fence)
	se.believed = append(se.believed, b)
	o.suspect(s)
}

func (o *oracle) ends(b believer, s int32) {
	se := o.of(s)
	if i := slices.Index(se.believed, b); i >= 0 {
		se.believed = slices.Delete(se.believed, i, i+1)
	}
}

// suspect counts an overlap if more than one instance believes in the session now.
func (o *oracle) suspect(s int32) {
	se := o.of(s)
	if len(se.believed) < 2 || o.t < se.excused {
		return
	}
	who := o.owners(s)
	if len(who) < 2 {
		return
	}
	o.out.Overlaps++
	a, b := o.fleet.nodes[who[0].node], o.fleet.nodes[who[1].node]
	ta, tb := &a.shell.terms[who[0].term], &b.shell.terms[who[1].term]
	o.first("%s is believed in by %s (fence %d, for %v more) and %s (fence %d)", o.fleet.app.sessions[s].id,
		a.instance, ta.fence, time.Duration(a.clock.WindowEnd(o.t, ta.belief.Mono, ta.belief.Wall)-o.t), b.instance, tb.fence)
}

func (o *oracle) first(format string, args ...any) {
	if o.out.First == "" {
		o.out.First = fmt.Sprintf("at %v: ", time.Duration(o.t)) + fmt.Sprintf(format, args...)
	}
}
