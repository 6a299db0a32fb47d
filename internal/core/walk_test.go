package core

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// walk tells one core whatever can be told, in any order: what a user, the others, the network and any Redis at all may say.
type walk struct {
	*rand.Rand
	core  *Witness
	now   Now
	open  []Op // not answered yet
	epoch int
	over  Time  // the quarantine
	group int64 // what the first epoch's group has agreed on
	ids   []string
	ttl   int64 // that is wanted
	look  *Sessions
}

func newWalk(seed uint64, seen func(Happening)) *walk {
	r := rand.New(rand.NewPCG(seed, 1))
	cfg := Config{Instance: "a", Place: r.IntN(3) > 0}
	cfg.NoHeartbeat, cfg.ReadAll = !cfg.Place, r.IntN(2) == 0
	w := &walk{Rand: r, core: &Witness{New(cfg), seen}, now: Now{Mono: 1, Wall: 1}, ids: []string{"s1", "s2", "s3", "s4", "s5"}}
	if r.IntN(10) == 0 {
		w.group = Second
	}
	if seed%8 == 5 {
		w.ttl = 2 * Second
	}
	w.step(Event{Kind: EvStart})
	return w
}

func (w *walk) step(ev Event) {
	ev.Now = w.now
	w.open = append(w.open, w.core.Step(ev).Ops...)
}

func (w *walk) sleep(d Time) {
	w.now.Mono += d
	w.now.Wall += int64(d)
}

func (w *walk) id() string { return w.ids[w.IntN(len(w.ids))] }

func (w *walk) peer() string { return []string{"", "a", "b", "c", "z"}[w.IntN(5)] }

// walks are as many as show each row that the table says they do, if not in each state.
const walks = 2000

// next tells one thing.
func (w *walk) next() {
	switch k := w.IntN(100); {
	case k < 25: // its time has come
		if n := w.core.Next(); n > w.now.Mono {
			w.sleep(n - w.now.Mono)
		}
		w.step(Event{Kind: EvTick})
	case k < 30:
		w.sleep(Time(w.Int64N(1 << (20 + w.IntN(16)))))
		w.step(Event{Kind: EvTick})
	case k < 75:
		w.sleep(Time(w.Int64N(2 * Millisecond)))
		w.answer()
	case k < 86:
		kind := []NoticeKind{NoticeTaken, NoticeFreed, NoticeFreed, NoticeJoined, NoticeLeft, NoticeAsked}[w.IntN(6)]
		n := Notice{Kind: kind, From: []string{"b", "c", "z"}[w.IntN(3)], IDs: []string{w.id()}, Peers: []string{w.peer()}}
		if kind == NoticeAsked {
			n.Peers[0] = "a"
		}
		w.step(Event{Kind: EvNotice, Notice: n})
	case k < 98:
		kind := []EventKind{EvWant, EvWant, EvWant, EvDrop, EvDrop, EvAbandon, EvRecovered, EvRecovered, EvSubscribed, EvDoubt, EvRenew}[w.IntN(11)]
		w.told(Event{Kind: kind, ID: w.id(), Wait: w.IntN(2) == 0, TTL: w.ttl, Cause: CauseRequested})
	case k < 99:
		w.now.Wall += (w.Int64N(80) - 40) * Second / 2
		w.step(Event{Kind: EvTick})
	default:
		if w.IntN(20) == 0 {
			w.step(Event{Kind: EvDrain})
		}
		w.epoch++
		if w.over = w.now.Mono; w.IntN(3) > 0 {
			w.over += Time(w.Int64N(30 * Second))
		}
	}
}

// told tells what a user says: that its work is stuck, or no more, of the present term mostly, and of an earlier one.
func (w *walk) told(ev Event) {
	l := w.core.entries.leases[ev.ID]
	stuck := w.core.keeper.stuck[ev.ID]
	switch {
	case ev.Kind == EvAbandon && w.core.k.Epoch() == "":
		ev.Kind = EvTick // there was no term yet
	case ev.Kind == EvRecovered && len(stuck) > 0 && w.IntN(4) > 0:
		ev.Fence = stuck[0]
	case ev.Kind == EvRecovered || ev.Kind == EvAbandon && (l == nil || w.IntN(4) == 0):
		ev.Fence = 1
	case l != nil:
		ev.Fence = l.Fence()
	}
	w.step(ev)
}

// answer answers a request, mostly the last.
func (w *walk) answer() {
	if len(w.open) == 0 {
		return
	}
	k := len(w.open) - 1
	if w.IntN(3) == 0 {
		k = w.IntN(len(w.open))
	}
	op := w.open[k]
	w.open = slices.Delete(w.open, k, k+1)
	a := Answer{Seq: op.Seq}
	if w.IntN(8) == 0 {
		a.Failure = Failure(1 + w.IntN(4))
		w.step(Event{Kind: EvAnswer, Answer: a})
		return
	}
	a.Epoch = fmt.Sprintf("r%d", w.epoch)
	if w.epoch == 0 {
		a.Group = w.group
	}
	a.Quarantine = max(0, int64(w.over-w.now.Mono))
	a.Stale = op.Epoch != a.Epoch && op.Kind != OpObserve && op.Kind != OpNodes && op.Kind != OpLook
	if op.Kind == OpNews && !a.Stale {
		a.News = &News{Notice: w.Int64N(3), Age: w.Int64N(20*Second) - Second, Mine: w.IntN(2) == 0}
		if w.look != nil && w.IntN(8) > 0 {
			a.News.Sum = w.look.Sum()
		}
	}
	if op.Kind == OpLook {
		a.Look = w.seen()
	} else if !a.Stale {
		for range op.Items {
			a.Results = append(a.Results, w.result(op.Kind))
		}
	}
	w.step(Event{Kind: EvAnswer, Answer: a})
}

func (w *walk) result(kind OpKind) Result {
	outcomes := map[OpKind][]Outcome{
		OpAcquire:  {OutGranted, OutGranted, OutGranted, OutAdopted, OutHeld, OutHeld, OutQuarantine, OutWrongType, OutUnknown},
		OpRenew:    {OutRenewed, OutRenewed, OutRenewed, OutLost, OutWrongType, OutUnknown},
		OpReassert: {OutReasserted, OutReasserted, OutClosed, OutSuperseded, OutLost, OutWrongType, OutUnknown},
		OpRelease:  {OutReleased, OutReleased, OutLost, OutWrongType, OutUnknown},
		OpObserve:  {OutHeld, OutHeld, OutFree, OutWrongType},
		OpNodes:    {OutAlive, OutGone},
	}[kind]
	if len(outcomes) == 0 {
		return Result{}
	}
	r := Result{Outcome: outcomes[w.IntN(len(outcomes))], Fence: int64(w.core.k.Seq()), PTTL: w.Int64N(1 << (20 + w.IntN(16)))}
	if r.Outcome == OutHeld || r.Outcome == OutLost {
		r.Owner = w.peer()
	}
	return r
}

func (w *walk) seen() *Look {
	l := &Look{Sessions: w.look}
	if w.look == nil || w.IntN(3) == 0 {
		var ids []string
		for _, id := range w.ids {
			if w.IntN(4) > 0 {
				ids = append(ids, id)
			}
		}
		w.look = NewSessions(ids)
		l.Sessions = w.look
	}
	for _, id := range l.Sessions.IDs {
		owner := w.peer()
		if lease := w.core.entries.leases[id]; lease != nil && lease.Phase() == owned && w.IntN(8) > 0 {
			owner = "a"
		}
		l.Owners = append(l.Owners, owner)
	}
	for _, id := range []string{"a", "b", "c"} {
		if w.IntN(3) > 0 {
			l.Nodes = append(l.Nodes, Seen{ID: id, PTTL: w.Int64N(1 << (20 + w.IntN(16)))})
		}
	}
	return l
}
