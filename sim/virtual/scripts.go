package virtual

import (
	"strconv"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Texts of Redis' own refusals.
const (
	textReadonly = "READONLY You can't write against a read only replica."
	textFull     = "OOM command not allowed when used memory > 'maxmemory'."
	textLoading  = "LOADING Redis is loading the dataset in memory"
	textRefused  = "connection refused"
	textReset    = "connection reset by peer"
	textTimeout  = "i/o timeout"
)

// do executes one op at true time t and fills a, whose Results it reuses: one for each item, whatever happens.
func (r *redis) do(t int64, op *core.Op, a *core.Answer) {
	*a = core.Answer{Seq: op.Seq, Results: a.Results[:0]}
	r.execute(t, op, a)
	for len(a.Results) < len(op.Items) {
		a.Results = append(a.Results, core.Result{})
	}
}

func (r *redis) execute(t int64, op *core.Op, a *core.Answer) {
	if op.Kind == core.OpAsk {
		r.ask(op)
		return
	}
	if !r.guard(t, a) {
		return
	}
	reads := op.Kind == core.OpObserve || op.Kind == core.OpNodes || op.Kind == core.OpLook
	if !reads && a.Epoch != op.Epoch {
		a.Stale = true
		return
	}
	r.denied = ""
	switch op.Kind {
	case core.OpAcquire:
		r.acquire(t, op, a)
	case core.OpRenew:
		r.renew(t, op, a)
	case core.OpReassert:
		r.reassert(t, op, a)
	case core.OpRelease:
		r.release(t, op, a)
	case core.OpObserve:
		r.observe(t, op, a)
	case core.OpBeat:
		r.setBeat(t, op)
	case core.OpLeave:
		r.leave(t, op)
	case core.OpNodes:
		r.nodes(t, op, a)
	case core.OpLook:
		a.Look = r.lookAt(t)
	}
	if r.denied != "" {
		*a = core.Answer{Seq: op.Seq, Failure: core.FailRefused, Text: r.denied, Results: a.Results[:0]}
	}
}

// guard is what every script begins with: it finds or writes the present epoch.
func (r *redis) guard(t int64, a *core.Answer) bool {
	us := r.nowUs(t)
	if r.epoch == "" || runOf(r.epoch) != r.runID {
		if r.readonly > 0 || r.full > 0 {
			text := textReadonly
			if r.readonly == 0 {
				text = textFull
			}
			*a = core.Answer{Seq: a.Seq, Failure: core.FailRefused, Text: text, Results: a.Results}
			return false
		}
		r.epoch = r.runID + " " + strconv.FormatInt(us+r.quarantine/1000, 10)
	}
	a.Epoch = r.epoch
	a.Quarantine = max(0, endOf(r.epoch)-us) * 1000
	a.RedisNow = us
	return true
}

// mayWrite is asked before the first write of a script, where Redis refuses: what a script has not written by then it
// never writes, so a refused op was not executed. memory says that the write needs some.
func (r *redis) mayWrite(memory bool) bool {
	switch {
	case r.readonly > 0:
		r.denied = textReadonly
	case r.full > 0 && memory:
		r.denied = textFull
	}
	return r.denied == ""
}

func (r *redis) acquire(t int64, op *core.Op, a *core.Answer) {
	now := r.nowMs(t)
	var taken []string
	for _, it := range op.Items {
		i := r.lease(it.ID)
		r.expireLease(i, now)
		k := &r.leases[i]
		var res core.Result
		switch {
		case k.foreign || k.fenceForeign:
			res.Outcome = core.OutWrongType
		case k.owner != "" && k.owner != op.Owner:
			res = r.heldBy(k, now)
		case a.Quarantine > 0:
			res.Outcome = core.OutQuarantine
		default:
			if !r.mayWrite(true) {
				return
			}
			res.Outcome = core.OutGranted
			if k.owner != "" {
				res.Outcome = core.OutAdopted
			} else {
				taken = append(taken, it.ID)
			}
			res.Fence = max(r.fenceOf(k, now), op.Fence, r.nowUs(t)-1) + 1
			r.set(i, op.Owner, now+op.TTL/core.Millisecond)
			r.setFence(i, res.Fence, now)
		}
		a.Results = append(a.Results, res)
	}
	if len(taken) > 0 {
		r.publish(core.Notice{Kind: core.NoticeTaken, From: op.Owner, IDs: taken})
	}
}

func (r *redis) heldBy(k *leaseKey, now int64) core.Result {
	return core.Result{Outcome: core.OutHeld, Owner: k.owner, PTTL: k.left(now)}
}

func (r *redis) fenceOf(k *leaseKey, now int64) int64 {
	if k.fence != 0 && now > k.fenceLast+fenceTTL/core.Millisecond {
		k.fence = 0
	}
	return k.fence
}

func (r *redis) set(i int32, owner string, expire int64) {
	k := &r.leases[i]
	if k.owner != owner {
		r.version++
	}
	k.owner, k.expire = owner, expire
	r.tap.granted(i, owner, expire)
}

func (r *redis) setFence(i int32, fence, now int64) {
	k := &r.leases[i]
	k.fence, k.fenceLast = fence, now
	r.tap.fenced(i, fence)
}

func (r *redis) renew(t int64, op *core.Op, a *core.Answer) {
	now := r.nowMs(t)
	if len(op.Items) > 0 && !r.mayWrite(false) {
		return
	}
	for _, it := range op.Items {
		i := r.lease(it.ID)
		r.expireLease(i, now)
		k := &r.leases[i]
		res := core.Result{Outcome: core.OutLost}
		switch {
		case k.foreign:
			res.Outcome = core.OutWrongType
		case k.owner == op.Owner:
			res.Outcome = core.OutRenewed
			k.expire, k.fenceLast = now+op.TTL/core.Millisecond, now
			r.tap.extended(i, k.owner, k.expire)
		case k.owner != "":
			res.Owner, res.PTTL = k.owner, k.left(now)
		}
		a.Results = append(a.Results, res)
	}
}

func (r *redis) reassert(t int64, op *core.Op, a *core.Answer) {
	now := r.nowMs(t)
	for _, it := range op.Items {
		i := r.lease(it.ID)
		r.expireLease(i, now)
		k := &r.leases[i]
		res := core.Result{Outcome: core.OutReasserted}
		switch {
		case k.foreign || k.fenceForeign:
			res.Outcome = core.OutWrongType
		case a.Quarantine == 0:
			res.Outcome = core.OutClosed
		case r.fenceOf(k, now) > it.Fence:
			res.Outcome = core.OutSuperseded
			if k.owner != "" {
				res.Owner, res.PTTL = k.owner, k.left(now)
			}
		default:
			if !r.mayWrite(true) {
				return
			}
			r.set(i, op.Owner, now+op.TTL/core.Millisecond)
			r.setFence(i, it.Fence, now)
		}
		a.Results = append(a.Results, res)
	}
}

func (r *redis) release(t int64, op *core.Op, a *core.Answer) {
	now := r.nowMs(t)
	var ids, heirs []string
	for _, it := range op.Items {
		i := r.lease(it.ID)
		r.expireLease(i, now)
		k := &r.leases[i]
		res := core.Result{Outcome: core.OutLost}
		switch {
		case k.foreign || k.fenceForeign:
			res.Outcome = core.OutWrongType
		case k.owner == op.Owner && k.fence != 0 && r.fenceOf(k, now) == it.Fence:
			if !r.mayWrite(false) {
				return
			}
			res.Outcome = core.OutReleased
			r.deleteLease(i)
			ids, heirs = append(ids, it.ID), append(heirs, it.Peer)
		case k.owner != "":
			res.Owner, res.PTTL = k.owner, k.left(now)
		}
		a.Results = append(a.Results, res)
	}
	if len(ids) > 0 {
		r.publish(core.Notice{Kind: core.NoticeFreed, From: op.Owner, IDs: ids, Peers: heirs})
	}
}

func (r *redis) observe(t int64, op *core.Op, a *core.Answer) {
	now := r.nowMs(t)
	for _, it := range op.Items {
		i := r.lease(it.ID)
		r.expireLease(i, now)
		k := &r.leases[i]
		res := core.Result{Outcome: core.OutFree}
		switch {
		case k.foreign:
			res.Outcome = core.OutWrongType
		case k.owner != "":
			res = r.heldBy(k, now)
		}
		a.Results = append(a.Results, res)
	}
}

func (r *redis) setBeat(t int64, op *core.Op) {
	if !r.mayWrite(true) {
		return
	}
	now := r.nowMs(t)
	i := r.beatKey(op.Owner)
	r.expireBeat(i, now)
	b := &r.beats[i]
	joined := !b.set
	b.set, b.expire = true, now+op.TTL/core.Millisecond
	r.tap.beat(i, b.expire)
	if !joined {
		return
	}
	r.version++
	at := len(r.live)
	for at > 0 && r.live[at-1] > i {
		at--
	}
	r.live = append(r.live, 0)
	copy(r.live[at+1:], r.live[at:])
	r.live[at] = i
	r.publish(core.Notice{Kind: core.NoticeJoined, From: op.Owner})
}

func (r *redis) leave(t int64, op *core.Op) {
	if !r.mayWrite(false) {
		return
	}
	i := r.beatKey(op.Owner)
	r.expireBeat(i, r.nowMs(t))
	if r.beats[i].set {
		r.deleteBeat(i)
	}
	r.publish(core.Notice{Kind: core.NoticeLeft, From: op.Owner})
}

func (r *redis) nodes(t int64, op *core.Op, a *core.Answer) {
	now := r.nowMs(t)
	for _, it := range op.Items {
		i := r.beatKey(it.ID)
		r.expireBeat(i, now)
		res := core.Result{Outcome: core.OutGone}
		if b := &r.beats[i]; b.set {
			res = core.Result{Outcome: core.OutAlive, PTTL: (b.expire - now) * core.Millisecond}
		}
		a.Results = append(a.Results, res)
	}
}

func (r *redis) ask(op *core.Op) {
	if len(op.Items) == 0 {
		return
	}
	ids := make([]string, len(op.Items))
	for i := range op.Items {
		ids[i] = op.Items[i].ID
	}
	r.publish(core.Notice{Kind: core.NoticeAsked, From: op.Owner, IDs: ids, Peers: []string{op.Items[0].Peer}})
}

// lookAt reads the whole namespace.
func (r *redis) lookAt(t int64) *core.Look {
	now := r.nowMs(t)
	look := *r.ownersAt(t)
	look.Nodes = make([]core.Seen, 0, len(r.live))
	for _, i := range r.live {
		if b := &r.beats[i]; now <= b.expire {
			look.Nodes = append(look.Nodes, core.Seen{ID: b.id, PTTL: (b.expire - now) * core.Millisecond})
		}
	}
	return &look
}

// ownersAt reads sessions and owners. Looks of an unchanged namespace share what they show, as far as nothing expires in
// between.
func (r *redis) ownersAt(t int64) *core.Look {
	if now := r.nowMs(t); r.look == nil || r.lookVersion != r.version || now > r.lookUntil {
		r.readOwners(now)
	}
	return r.look
}

func (r *redis) readOwners(now int64) {
	owners := make([]string, len(r.sessionSet.IDs))
	until := forever
	for n, i := range r.sessionIdx {
		if k := &r.leases[i]; k.owner != "" && now <= k.expire {
			owners[n] = k.owner
			until = min(until, k.expire)
		}
	}
	r.look = &core.Look{Sessions: r.sessionSet, Owners: owners}
	r.lookVersion, r.lookUntil = r.version, until
}
