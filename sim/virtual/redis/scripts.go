package redis

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

const TextLoading = "LOADING Redis is loading the dataset in memory"

// Do executes an op at true time t. It reuses a's slice of results, and sets one result for each item.
func (r *Server) Do(t int64, op *core.Op, a *core.Answer) {
	if r.Config.Lua {
		*a = r.interpreted().do(t, op)
		return
	}
	*a = core.Answer{Seq: op.Seq, Results: slices.Grow(a.Results[:0], len(op.Items))}
	r.execute(t, op, a)
	r.executed(op, a)
	for len(a.Results) < len(op.Items) {
		a.Results = append(a.Results, core.Result{})
	}
}

// Glance executes the first part of a discovery, which reads the owners.
func (r *Server) Glance(t int64, op *core.Op, a *core.Answer) {
	if r.Config.Lua {
		*a = r.interpreted().glance(t, op)
		return
	}
	*a = core.Answer{Seq: op.Seq, Results: a.Results[:0]}
	if len(r.sessionSet.IDs) == 0 || r.guard(t, op, a) {
		a.Look = r.ownersAt(t)
	}
	r.executed(op, a)
}

func (r *Server) execute(t int64, op *core.Op, a *core.Answer) {
	if op.Kind == core.OpAsk {
		r.ask(op)
		return
	}
	if !r.guard(t, op, a) {
		return
	}
	if op.Kind == core.OpSupersede {
		if r.Epoch == op.Epoch && !r.begin(t, op, a) {
			return
		}
		r.head(t, a)
		return
	}
	reads := op.Kind == core.OpObserve || op.Kind == core.OpNodes || op.Kind == core.OpLook
	if !reads && a.Epoch != op.Epoch {
		a.Stale = true
		return
	}
	r.why = ""
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
	if r.why != "" {
		refuse(op, a, r.why)
	}
}

// guard begins every script: it finds or begins the current epoch. It returns false if the script is refused.
func (r *Server) guard(t int64, op *core.Op, a *core.Answer) bool {
	if r.DeniesOp(op) {
		refuse(op, a, textNoKey)
		return false
	}
	r.dirty = false
	if run, _ := parseEpoch(r.Epoch); run != r.Life() {
		if !r.begin(t, op, a) {
			return false
		}
	} else if r.Epoch != op.Epoch {
		if agreed, ok := r.agreed(t); ok {
			a.Group = agreed
		} else if !r.begin(t, op, a) {
			return false
		}
	}
	r.head(t, a)
	return true
}

func (r *Server) head(t int64, a *core.Answer) {
	_, end := parseEpoch(r.Epoch)
	a.Epoch, a.RedisNow = r.Epoch, r.nowUs(t)
	a.Quarantine = max(0, end-a.RedisNow) * 1000
}

func (r *Server) begin(t int64, op *core.Op, a *core.Answer) bool {
	length := cmp.Or(op.Quarantine, int64(r.Config.Quarantine))
	wait, why := r.doubt(t, op, length/1000)
	end := r.nowUs(t) + wait
	epoch := r.Life() + " " + strconv.FormatInt(end, 10)
	if epoch == r.Epoch {
		epoch = r.Life() + " " + strconv.FormatInt(end+1, 10)
	}
	if !r.mayWrite("HSET", true) {
		refuse(op, a, r.why)
		return false
	}
	cmdHSet(r, t, []string{r.groupKey(), "epoch", epoch, "quarantine", strconv.FormatInt(length/1000, 10)})
	if why != "" {
		if !r.mayWrite("HSET", true) {
			refuse(op, a, r.why)
			return false
		}
		cmdHSet(r, t, []string{r.groupKey(), "doubt", epoch + " " + why})
	}
	if !r.mayWrite("SET", true) {
		refuse(op, a, r.why)
		return false
	}
	a.Group = length / 1000 * 1000
	r.setEpoch(epoch)
	return true
}

func (r *Server) setEpoch(epoch string) {
	r.Epoch = epoch
	r.Wrote(Change{Kind: EpochSet, Text: epoch})
}

// agreed returns the quarantine in ns that the current epoch's group record holds.
func (r *Server) agreed(t int64) (int64, bool) {
	noted, ok := cmdHMGet(r, t, []string{r.groupKey(), "epoch", "quarantine"}).([]Reply)
	if !ok || noted[0] != r.Epoch {
		return 0, false
	}
	text, _ := noted[1].(string)
	us, err := strconv.ParseInt(text, 10, 64)
	return us * 1000, err == nil && us >= 0 && text[0] >= '0'
}

func (r *Server) acquire(t int64, op *core.Op, a *core.Answer) {
	now := r.NowMs(t)
	var taken []string
	for _, it := range op.Items {
		i, k := r.current(it.ID, now)
		var res core.Result
		switch {
		case k.foreign || k.fenceForeign:
			res.Outcome = core.OutWrongType
		case k.owner != "" && (k.owner != op.Owner || it.Fresh):
			res = k.held(now)
		case a.Quarantine > 0:
			res.Outcome = core.OutQuarantine
		default:
			res.Owner = op.Owner
			if res.Fence = k.fence; k.owner == "" || k.fence <= op.Fence {
				res.Fence = max(k.fence, op.Fence, r.nowUs(t)-1) + 1
			}
			if k.owner != "" {
				if !r.mayWrite("PEXPIRE", false) {
					return
				}
				res.Outcome = core.OutAdopted
				r.extend(i, now+op.TTL/core.Millisecond)
			} else {
				if !r.mayWrite("SET", true) {
					return
				}
				res.Outcome = core.OutGranted
				taken = append(taken, it.ID)
				r.set(i, op.Owner, now+op.TTL/core.Millisecond)
			}
			if !r.mayWrite("SET", true) { // an adoption's first SET
				return
			}
			r.setFence(i, res.Fence, now+fenceLife)
		}
		a.Results = append(a.Results, res)
	}
	if len(taken) > 0 {
		r.Config.Publish(core.Notice{Kind: core.NoticeTaken, From: op.Owner, IDs: taken})
	}
}

// current finds a lease, after deleting it or its fence if they have expired.
func (r *Server) current(id string, now int64) (int32, *leaseKey) {
	i := r.Lease(id)
	r.ExpireLease(i, now)
	k := &r.leases[i]
	k.expireFence(now)
	return i, k
}

func (k *leaseKey) held(now int64) core.Result {
	return core.Result{Outcome: core.OutHeld, Owner: k.owner, PTTL: k.left(now)}
}

func (k *leaseKey) expireFence(now int64) {
	if now > k.fenceExpire {
		k.fence, k.fenceText, k.fenceForeign = 0, "", false
	}
}

func (r *Server) set(i int32, owner string, expire int64) {
	k := &r.leases[i]
	if k.owner != owner || k.expire > expire {
		r.version++
	}
	k.owner, k.expire = owner, expire
	r.Wrote(Change{Kind: Granted, N: i, Text: owner, Expire: expire})
}

func (r *Server) extend(i int32, expire int64) {
	k := &r.leases[i]
	if k.expire > expire {
		r.version++
	}
	k.expire = expire
	r.Wrote(Change{Kind: Extended, N: i, Text: k.owner, Expire: expire})
}

func (r *Server) setFence(i int32, fence, expire int64) {
	k := &r.leases[i]
	k.fence, k.fenceExpire = fence, expire
	r.Wrote(Change{Kind: Fenced, N: i, At: fence, Expire: expire})
}

func (k *leaseKey) refreshFence(now int64) {
	if k.fenced() {
		k.fenceExpire = now + fenceLife
	}
}

func (r *Server) renew(t int64, op *core.Op, a *core.Answer) {
	now := r.NowMs(t)
	for _, it := range op.Items {
		i, k := r.current(it.ID, now)
		res := core.Result{Outcome: core.OutLost}
		switch {
		case k.foreign:
			res.Outcome = core.OutWrongType
		case k.owner == op.Owner:
			if !r.mayWrite("PEXPIRE", false) {
				return
			}
			res.Outcome = core.OutRenewed
			r.extend(i, now+op.TTL/core.Millisecond)
		case k.owner != "":
			res.Owner, res.PTTL = k.owner, k.left(now)
		}
		a.Results = append(a.Results, res)
	}
	if r.mayWrite("PEXPIRE", false) && len(op.Items) > 0 {
		r.leases[r.Lease(op.Items[redisstore.Refreshed(op)].ID)].refreshFence(now)
	}
}

func (r *Server) reassert(t int64, op *core.Op, a *core.Answer) {
	now := r.NowMs(t)
	for _, it := range op.Items {
		i, k := r.current(it.ID, now)
		res := core.Result{Outcome: core.OutReasserted}
		switch {
		case k.foreign || k.fenceForeign:
			res.Outcome = core.OutWrongType
		case a.Quarantine == 0:
			res.Outcome = core.OutClosed
		case k.fence > it.Fence:
			res.Outcome = core.OutSuperseded
			if k.owner != "" {
				res.Owner, res.PTTL = k.owner, k.left(now)
			}
		default:
			if !r.mayWrite("SET", true) {
				return
			}
			r.set(i, op.Owner, now+op.TTL/core.Millisecond)
			r.setFence(i, it.Fence, now+fenceLife)
		}
		a.Results = append(a.Results, res)
	}
}

func (r *Server) release(t int64, op *core.Op, a *core.Answer) {
	now := r.NowMs(t)
	var ids, heirs []string
	for _, it := range op.Items {
		i, k := r.current(it.ID, now)
		res := core.Result{Outcome: core.OutLost}
		switch {
		case k.foreign || k.fenceForeign:
			res.Outcome = core.OutWrongType
		case k.owner == op.Owner && k.fence != 0 && k.fence == it.Fence:
			if !r.mayWrite("DEL", false) {
				return
			}
			res.Outcome = core.OutReleased
			r.DeleteLease(i)
			k.refreshFence(now)
			ids, heirs = append(ids, it.ID), append(heirs, it.Peer)
		case k.owner != "":
			res.Owner, res.PTTL = k.owner, k.left(now)
		case k.fence != 0 && k.fence == it.Fence:
			ids, heirs = append(ids, it.ID), append(heirs, it.Peer)
		}
		a.Results = append(a.Results, res)
	}
	if len(ids) > 0 {
		r.Config.Publish(core.Notice{Kind: core.NoticeFreed, From: op.Owner, IDs: ids, Peers: heirs})
	}
}

func (r *Server) observe(t int64, op *core.Op, a *core.Answer) {
	now := r.NowMs(t)
	for _, it := range op.Items {
		_, k := r.current(it.ID, now)
		res := core.Result{Outcome: core.OutFree}
		switch {
		case k.foreign:
			res.Outcome = core.OutWrongType
		case k.owner != "":
			res = k.held(now)
		}
		a.Results = append(a.Results, res)
	}
}

func (r *Server) setBeat(t int64, op *core.Op) {
	now := r.NowMs(t)
	i := r.Beat(op.Owner)
	r.ExpireBeat(i, now)
	if !r.mayWrite("SET", true) {
		return
	}
	if r.putBeat(t, i, now+op.TTL/core.Millisecond) {
		r.Config.Publish(core.Notice{Kind: core.NoticeJoined, From: op.Owner})
	}
}

func (r *Server) putBeat(t int64, i int32, expire int64) bool {
	b := &r.beats[i]
	joined := !b.set
	b.set, b.expire = true, expire
	r.Wrote(Change{Kind: Beaten, N: i, Text: cmp.Or(b.text, "1"), Expire: expire, At: t})
	if !joined {
		return false
	}
	b.since = t
	r.version++
	at, _ := slices.BinarySearch(r.live, i)
	r.live = slices.Insert(r.live, at, i)
	return true
}

func (r *Server) leave(t int64, op *core.Op) {
	if !r.mayWrite("DEL", false) {
		return
	}
	i := r.Beat(op.Owner)
	r.ExpireBeat(i, r.NowMs(t))
	if r.beats[i].set {
		r.deleteBeat(i)
	}
	r.Config.Publish(core.Notice{Kind: core.NoticeLeft, From: op.Owner})
}

func (r *Server) nodes(t int64, op *core.Op, a *core.Answer) {
	now := r.NowMs(t)
	for _, it := range op.Items {
		i := r.Beat(it.ID)
		r.ExpireBeat(i, now)
		res := core.Result{Outcome: core.OutGone}
		if b := &r.beats[i]; b.set {
			res = core.Result{Outcome: core.OutAlive, PTTL: b.left(now)}
		}
		a.Results = append(a.Results, res)
	}
}

func (r *Server) ask(op *core.Op) {
	if len(op.Items) == 0 {
		return
	}
	ids := make([]string, len(op.Items))
	for i := range op.Items {
		ids[i] = op.Items[i].ID
	}
	r.Config.Publish(core.Notice{Kind: core.NoticeAsked, From: op.Owner, IDs: ids, Peers: []string{op.Items[0].Peer}})
}

func (r *Server) lookAt(t int64) *core.Look {
	now := r.NowMs(t)
	look := *r.ownersAt(t)
	alive := r.scan(now)
	look.Nodes = make([]core.Seen, len(alive))
	for n, i := range alive {
		look.Nodes[n] = core.Seen{ID: r.beats[i].id, PTTL: r.beats[i].left(now)}
	}
	return &look
}

// scan is SCAN of the heartbeats. The slice is valid until the next call.
func (r *Server) scan(now int64) []int32 {
	for n := len(r.live) - 1; n >= 0; n-- {
		r.ExpireBeat(r.live[n], now)
	}
	// SCAN has no order. Sorted names do not depend on how the scripts run.
	r.scanned = append(r.scanned[:0], r.live...)
	slices.SortFunc(r.scanned, func(a, b int32) int { return strings.Compare(r.beats[a].id, r.beats[b].id) })
	return r.scanned
}

// ownersAt reads sessions and owners. Discoveries share the result until it changes or a lease expires.
func (r *Server) ownersAt(t int64) *core.Look {
	if now := r.NowMs(t); r.look == nil || r.lookVersion != r.version || now > r.lookUntil {
		r.readOwners(now)
	}
	return r.look
}

// readOwners reads in memory order. It first deletes expired leases in session order, as the scripts do.
func (r *Server) readOwners(now int64) {
	owners := make([]string, len(r.sessionSet.IDs))
	until, over := Forever, false
	for i, n := range r.sessionAt {
		if k := &r.leases[i]; n >= 0 {
			over = over || now > k.expire && k.there()
			if k.owner != "" {
				owners[n] = k.owner
				until = min(until, k.expire)
			}
		}
	}
	if over {
		for _, i := range r.sessionIdx {
			r.ExpireLease(i, now)
		}
		r.readOwners(now)
		return
	}
	r.look = &core.Look{Sessions: r.sessionSet, Owners: owners}
	r.lookVersion, r.lookUntil = r.version, until
}
