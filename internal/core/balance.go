package core

import "github.com/leasestorm/leasestorm/internal/place"

// balancer gives this instance its share of the sessions, on discoveries and notices.
type balancer struct {
	*base
	entries *entries
	holder  *holder
	keeper  *keeper
}

// discover sends the discovery that is due. It begins with the news, which may show that nothing was missed.
func (b *balancer) discover() {
	if b.cfg.ReadAll || b.table.Reading() {
		b.table.LookSent(b.req.look(b.table.Known()))
		return
	}
	b.table.LookSent(b.req.news(false, 0))
}

func (b *balancer) newsAnswered(in *inflight, a *Answer) {
	switch {
	case a.News == nil && !b.out(): // of another epoch, or Done
		b.table.LookFailed(in.op.Seq)
	case b.table.LookEnded(in.op.Seq) && !b.out():
		if b.table.News(a.News); !b.table.Reading() {
			b.balance(in.op.Seq, false)
		}
	}
}

func (b *balancer) lookAnswered(in *inflight, a *Answer) {
	if !b.table.LookEnded(in.op.Seq) || a.Look == nil || b.out() {
		return
	}
	changed := b.members.See(&in.op, a.Look.Nodes)
	changed = b.table.See(a.Look, b.entries.stands) || changed
	if !b.cfg.ReadAll {
		b.req.news(true, a.Look.Sessions.Sum())
	}
	b.balance(in.op.Seq, changed)
}

// out reports whether this instance takes no part in the balance.
func (b *balancer) out() bool { return b.own.Leaving() || b.own.Rejoin() != 0 || b.k.Outside() }

// balance acts on what this instance knows after the discovery seq.
func (b *balancer) balance(seq uint64, changed bool) {
	blocked, _ := b.keeper.blocked()
	b.table.Seen(changed, blocked)
	if b.cfg.Place {
		b.askRedis()
		b.answerAsks(seq)
		b.takeFree()
		b.ask(b.table.Wanted())
		b.dropUnwanted()
	}
	b.members.Prune(b.table.Owns())
}

// askRedis renews the held leases that a discovery did not show as this instance's, to find out whether this instance still owns
// them.
func (b *balancer) askRedis() {
	for _, i := range b.table.Denied() {
		b.holder.renew(b.entries.entry(i))
	}
}

func (b *balancer) ask(asks [][]Item) {
	for _, items := range asks {
		b.req.send(OpAsk, items, nil)
	}
}

// answerAsks yields leases above this instance's quota that others requested.
func (b *balancer) answerAsks(look uint64) {
	if !b.table.Asked() {
		return
	}
	if b.k.InQuarantine() {
		b.table.Forget() // in a quarantine nobody could acquire a released lease
		return
	}
	held := 0
	for _, l := range b.entries.held {
		if l.place && !l.yielding && l.session != place.Nobody {
			held++
		}
	}
	if excess, ok := b.table.Excess(held); ok {
		b.table.Decide(look, func(from string, ids []string, none bool) bool {
			if none {
				return b.give(from, ids, new(int))
			}
			return b.give(from, ids, &excess)
		})
	}
}

// give yields the requested leases within excess, and reports whether excess did not suffice. It renews the others, because the instance
// that requests them may have found them without an owner.
func (b *balancer) give(from string, ids []string, excess *int) (lacking bool) {
	for _, id := range ids {
		l := b.entries.leases[id]
		if l == nil || l.Phase() != owned || l.yielding || l.want && !l.place {
			continue
		}
		if *excess > 0 {
			*excess--
			b.holder.yield(l, from, CauseRebalance)
			continue
		}
		lacking = true
		if l.Op() == 0 && !b.cfg.ReadAll {
			b.holder.requestRenew(l)
		}
	}
	return lacking
}

// takeFree handles the sessions without a living owner. It acquires free ones and reads those whose owner has no heartbeat. While
// acquisitions are blocked, it does neither: after a loss of data no heartbeat lives and every session is free, so each instance of a
// large fleet would watch all of them. Table.Wanted plans a discovery for later.
func (b *balancer) takeFree() {
	anyFree := false
	for i := range b.table.Unowned {
		anyFree = b.takeUp(i) || anyFree
	}
	b.ask(b.table.Formers())
	b.table.Leaves(anyFree)
}

// takeUp handles session i, which has no living owner, and reports whether it is free and may come to this instance.
func (b *balancer) takeUp(i int32) (free bool) {
	o, l := b.table.Owner(i), b.entries.entry(i)
	switch {
	case l != nil && b.decided(l, o):
		return o == place.Nobody && !l.stuck
	case o == 0: // ours in Redis without a term here: an attempt was not answered
		b.keeper.tryAcquire(b.entries.placed(i))
	case o != place.Nobody:
		if b.table.Blocked() == 0 && (b.members.LongGone(o) || b.table.Early(i)) {
			b.keeper.observe(b.entries.placed(i))
		}
	default:
		b.takeFound(i)
		return true
	}
	return false
}

// decided reports whether l, of owner o, needs no action of takeUp: it is held, stuck, under way, or waited for already.
func (b *balancer) decided(l *lease, o int32) bool {
	return l.Phase() != idle || l.stuck || l.place && o != 0 && (o > 0 || !b.givenBack(l))
}

// givenBack reports whether l, found free, had an owner that must have released it before its expiry. The key of another program has no
// owner's name: it is tried once a TTL only.
func (b *balancer) givenBack(l *lease) bool { return l.holder != "" && l.exp > b.k.Now() }

func (b *balancer) takeFound(i int32) {
	now, turn := b.table.Found(i)
	if !now && !turn {
		return
	}
	l := b.entries.placed(i)
	l.exp = b.k.Now()
	if now {
		b.keeper.tryAcquire(l)
	} else {
		b.keeper.awaitExpiry(l)
	}
}

// watch reads the leases of instance o, which seems dead, to acquire them when they expire, if this instance is early in their order. Free
// sessions may have been left to o as their target, so a discovery follows. While acquisitions are blocked, watch does nothing, for the
// reason that takeFree has.
func (b *balancer) watch(o int32) {
	if until, _ := b.keeper.blocked(); !b.cfg.Place || until != 0 {
		return
	}
	if b.table.AnyFree() {
		b.table.Discover(place.DiscoverGoneHeir)
	}
	for k, id := range b.table.Sessions().IDs {
		if i := int32(k); b.table.Owner(i) != o || !b.table.Early(i) {
			continue
		}
		l := b.entries.lease(id)
		if l.Phase() == idle && !l.stuck && !l.place {
			l.place = true
			b.keeper.observe(l)
		}
	}
}

// dropUnwanted ends the work of placed leases whose session was gone or paused in two discoveries in a row. In a quarantine it does
// nothing: lost sessions may be restored, and a released lease could not be acquired again before the quarantine ends.
func (b *balancer) dropUnwanted() {
	for _, l := range b.entries.held {
		switch {
		case !l.place || l.want || l.yielding:
		case l.session != place.Nobody || b.k.InQuarantine():
			l.will(nextNothing)
		case l.next != nextYield:
			l.will(nextYield)
			b.table.Discover(place.DiscoverMissing)
		default:
			b.holder.yield(l, "", CauseUnwanted)
		}
	}
}
