package virtual

import (
	"fmt"
	"slices"
	"time"
)

// believes returns IsOwned of that process at this instant, on that machine's clocks.
func (w *world) believes(b believer) bool {
	n := w.nodes[b.node]
	t := &n.terms[b.term]
	if !n.alive || t.gen != b.gen {
		return false
	}
	return n.trusts(t, w.t)
}

// begins records a term and judges it: no other instance may believe, and the fence must be higher than all earlier ones.
func (w *world) begins(b believer, s int32, fence int64) {
	se := &w.sess[s]
	if fence != 0 && fence <= se.granted && w.t > se.excused {
		w.out.Falls++
		w.first("fence %d of %s told to %s after %d", fence, se.id, w.nodes[b.node].instance, se.granted)
	}
	se.granted = max(se.granted, fence)
	se.believed = append(se.believed, b)
	w.suspect(s)
}

func (w *world) ends(b believer, s int32) {
	se := &w.sess[s]
	if i := slices.Index(se.believed, b); i >= 0 {
		se.believed = slices.Delete(se.believed, i, i+1)
	}
}

// suspect counts an overlap if more than one instance believes in the session now.
func (w *world) suspect(s int32) {
	se := &w.sess[s]
	if len(se.believed) < 2 || w.t < se.excused {
		return
	}
	var who []believer
	for _, b := range se.believed {
		if w.believes(b) {
			who = append(who, b)
		}
	}
	if len(who) < 2 {
		return
	}
	w.out.Overlaps++
	a, b := w.nodes[who[0].node], w.nodes[who[1].node]
	ta, tb := &a.terms[who[0].term], &b.terms[who[1].term]
	w.first("%s is believed in by %s (fence %d, for %v more) and %s (fence %d)", se.id,
		a.instance, ta.fence, time.Duration(a.clock.WindowEnd(w.t, ta.belief.Mono, ta.belief.Wall)-w.t), b.instance, tb.fence)
}

func (w *world) first(format string, args ...any) {
	if w.out.First == "" {
		w.out.First = fmt.Sprintf("at %v: ", time.Duration(w.t)) + fmt.Sprintf(format, args...)
	}
}
