package redis

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// Bootstrap declares that no data was lost, so the present run needs no quarantine.
func (r *Server) Bootstrap() {
	r.Epoch = r.Life() + " 0"
	cmdHSet(r, 0, []string{r.groupKey(), "epoch", r.Epoch, "quarantine", strconv.FormatInt(r.Config.Quarantine.Microseconds(), 10)})
}

func (r *Server) groupKey() string { return r.Config.EpochKey + ":group" }

// Do executes an op at true time t. It reuses a's slice of results, and sets a result for each item.
func (r *Server) Do(t int64, op *core.Op, a *core.Answer) {
	if r.Config.Lua {
		*a = r.interpreted().do(t, op)
		return
	}
	*a = core.Answer{Seq: op.Seq, Results: slices.Grow(a.Results[:0], len(op.Items))}
	twin{r}.execute(t, op, a)
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
	if len(r.sessionSet.IDs) == 0 || (twin{r}).guard(t, op, a) {
		a.Look = r.ownersAt(t)
	}
}

// KeysOf returns the keys of an op's script.
func (r *Server) KeysOf(op *core.Op) []string {
	asked := *op
	if op.Kind == core.OpLook {
		asked.Kind, asked.Items = core.OpObserve, nil
		for _, id := range r.sessionSet.IDs {
			asked.Items = append(asked.Items, core.Item{ID: id})
		}
	}
	return r.wire.Call(&asked).Keys
}

// twin has the scripts' twins in Go, for instances on other machines than Redis.
type twin struct{ *Server }

func (r twin) execute(t int64, op *core.Op, a *core.Answer) {
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
	case core.OpNews:
		r.news(t, op, a)
	}
	if r.why != "" {
		refuse(op, a, r.why)
	}
}

// guard begins every script: it finds or begins the current epoch. It returns false if the script is refused.
func (r twin) guard(t int64, op *core.Op, a *core.Answer) bool {
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

func (r twin) head(t int64, a *core.Answer) {
	_, end := parseEpoch(r.Epoch)
	a.Epoch, a.RedisNow = r.Epoch, r.nowUs(t)
	a.Quarantine = max(0, end-a.RedisNow) * 1000
}

func (r twin) begin(t int64, op *core.Op, a *core.Answer) bool {
	length := cmp.Or(op.Quarantine, int64(r.Config.Quarantine))
	end := r.nowUs(t) + length/1000
	epoch := r.Life() + " " + strconv.FormatInt(end, 10)
	if epoch == r.Epoch {
		epoch = r.Life() + " " + strconv.FormatInt(end+1, 10)
	}
	if !r.mayWrite("HSET", true) {
		refuse(op, a, r.why)
		return false
	}
	cmdHSet(r.Server, t, []string{r.groupKey(), "epoch", epoch, "quarantine", strconv.FormatInt(length/1000, 10)})
	if !r.mayWrite("SET", true) {
		refuse(op, a, r.why)
		return false
	}
	a.Group = length / 1000 * 1000
	r.setEpoch(epoch)
	return true
}

// agreed returns the quarantine in ns that the current epoch's group record holds.
func (r twin) agreed(t int64) (int64, bool) {
	noted, ok := cmdHMGet(r.Server, t, []string{r.groupKey(), "epoch", "quarantine"}).([]Reply)
	if !ok || noted[0] != r.Epoch {
		return 0, false
	}
	text, _ := noted[1].(string)
	us, err := strconv.ParseInt(text, 10, 64)
	return us * 1000, err == nil && us >= 0 && text[0] >= '0'
}

func (r twin) acquire(t int64, op *core.Op, a *core.Answer) {
	var taken []string
	for _, it := range op.Items {
		res, written := r.grant(t, op, it, a.Quarantine > 0)
		if !written {
			return
		}
		if res.Outcome == core.OutGranted {
			taken = append(taken, it.ID)
		}
		a.Results = append(a.Results, res)
	}
	if len(taken) > 0 {
		r.publish(t, core.Notice{Kind: core.NoticeTaken, From: op.Owner, IDs: taken})
	}
}

// grant acquires one lease. It returns false if Redis refuses a write, which ends the script.
func (r twin) grant(t int64, op *core.Op, it core.Item, quarantine bool) (res core.Result, written bool) {
	now := r.NowMs(t)
	i, k := r.current(it.ID, now)
	switch {
	case k.foreign || k.fenceForeign:
		res.Outcome = core.OutWrongType
		return res, true
	case k.owner != "" && (k.owner != op.Owner || it.Fresh):
		return k.held(now), true
	case quarantine:
		res.Outcome = core.OutQuarantine
		return res, true
	}
	res.Owner = op.Owner
	if res.Fence = k.fence; k.owner == "" || k.fence <= op.Fence {
		res.Fence = max(k.fence, op.Fence, r.nowUs(t)-1) + 1
	}
	if k.owner != "" {
		if !r.mayWrite("PEXPIRE", false) {
			return res, false
		}
		res.Outcome = core.OutAdopted
		r.extend(i, now+op.TTL/core.Millisecond)
	} else {
		if !r.mayWrite("SET", true) {
			return res, false
		}
		res.Outcome = core.OutGranted
		r.set(i, op.Owner, now+op.TTL/core.Millisecond)
	}
	if !r.mayWrite("SET", true) { // an adoption's first SET
		return res, false
	}
	r.setFence(i, res.Fence, now+fenceLife)
	return res, true
}

func (r twin) renew(t int64, op *core.Op, a *core.Answer) {
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
		r.refreshFence(r.Lease(op.Items[redisstore.Refreshed(op)].ID), now)
	}
}

func (r twin) reassert(t int64, op *core.Op, a *core.Answer) {
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

func (r twin) release(t int64, op *core.Op, a *core.Answer) {
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
			r.refreshFence(i, now)
			ids, heirs = append(ids, it.ID), append(heirs, it.Peer)
		case k.owner != "":
			res.Owner, res.PTTL = k.owner, k.left(now)
		case k.fence != 0 && k.fence == it.Fence:
			ids, heirs = append(ids, it.ID), append(heirs, it.Peer)
		}
		a.Results = append(a.Results, res)
	}
	if len(ids) > 0 {
		r.publish(t, core.Notice{Kind: core.NoticeFreed, From: op.Owner, IDs: ids, Peers: heirs})
	}
}

func (r twin) observe(t int64, op *core.Op, a *core.Answer) {
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

func (r twin) setBeat(t int64, op *core.Op) {
	now := r.NowMs(t)
	i := r.Beat(op.Owner)
	r.expireBeat(i, now)
	if !r.mayWrite("SET", true) {
		return
	}
	if r.putBeat(t, i, now+op.TTL/core.Millisecond) {
		r.publish(t, core.Notice{Kind: core.NoticeJoined, From: op.Owner})
	}
}

func (r twin) leave(t int64, op *core.Op) {
	if !r.mayWrite("DEL", false) {
		return
	}
	i := r.Beat(op.Owner)
	r.expireBeat(i, r.NowMs(t))
	if r.beats[i].set {
		r.deleteBeat(i)
	}
	r.publish(t, core.Notice{Kind: core.NoticeLeft, From: op.Owner})
}

func (r twin) nodes(t int64, op *core.Op, a *core.Answer) {
	now := r.NowMs(t)
	for _, it := range op.Items {
		i := r.Beat(it.ID)
		r.expireBeat(i, now)
		res := core.Result{Outcome: core.OutGone}
		if b := &r.beats[i]; b.set {
			res = core.Result{Outcome: core.OutAlive, PTTL: b.left(now)}
		}
		a.Results = append(a.Results, res)
	}
}

// publish publishes a notice and its number.
func (r twin) publish(t int64, n core.Notice) {
	why := r.why
	counted := r.mayWrite("HSET", true)
	r.why = why
	number := r.record(t, "notices")[0] + 1
	if counted {
		cmdHSet(r.Server, t, []string{r.groupKey(), "notices", strconv.FormatInt(number, 10)})
	}
	r.notify(n)
	if counted {
		_, end, _ := strings.Cut(r.Epoch, " ")
		r.notify(core.Notice{Kind: core.NoticeNumber, From: n.From, Number: number, Epoch: end})
	}
}

// record returns the numbers in fields of the group's record, 0 for one that is missing or no number.
func (r twin) record(t int64, fields ...string) []int64 {
	numbers := make([]int64, len(fields))
	texts, _ := cmdHMGet(r.Server, t, append([]string{r.groupKey()}, fields...)).([]Reply)
	for i := range texts {
		text, _ := texts[i].(string)
		numbers[i], _ = strconv.ParseInt(text, 10, 64)
	}
	return numbers
}

func (r twin) news(t int64, op *core.Op, a *core.Answer) {
	now, had := r.nowUs(t), r.record(t, "read", "reading", "notices")
	read, reading := had[0], had[1]
	sum, _ := with(objHash, false, nil, cmdHGet)(r.Server, t, []string{r.groupKey(), "sessions"}).(string)
	n := &core.News{Age: -1, Notice: had[2]}
	n.Sum, _ = strconv.ParseUint(sum, 36, 64)
	if read > 0 && read <= now {
		n.Age = (now - read) * 1000
	}
	set := func(words ...string) {
		if r.mayWrite("HSET", true) {
			cmdHSet(r.Server, t, append([]string{r.groupKey()}, words...))
		}
		r.why = ""
	}
	interval := op.Interval / 1000
	switch us := strconv.FormatInt(now, 10); {
	case op.Done:
		set("read", us, "sessions", strconv.FormatUint(op.Sum, 36))
	case (n.Age < 0 || now-read >= interval) && (reading > now || now-reading >= interval/redisstore.NewsPatience):
		n.Mine = true
		set("reading", us)
	}
	a.News = n
}

func (r twin) ask(op *core.Op) {
	if len(op.Items) == 0 {
		return
	}
	ids := make([]string, len(op.Items))
	for i := range op.Items {
		ids[i] = op.Items[i].ID
	}
	r.notify(core.Notice{Kind: core.NoticeAsked, From: op.Owner, IDs: ids, Peers: []string{op.Items[0].Peer}})
}

func (r twin) lookAt(t int64) *core.Look {
	now := r.NowMs(t)
	look := *r.ownersAt(t)
	alive := r.scan(now)
	look.Nodes = make([]core.Seen, len(alive))
	for n, i := range alive {
		look.Nodes[n] = core.Seen{ID: r.beats[i].id, PTTL: r.beats[i].left(now)}
	}
	return &look
}

// current finds a lease, after it has deleted the lease or its fence if expired.
func (r twin) current(id string, now int64) (int32, *leaseKey) {
	i := r.Lease(id)
	r.expireLease(i, now)
	r.expireFence(i, now)
	return i, &r.leases[i]
}

// Apply repeats a master's change at true time t. Its effects are one change.
func (r *Server) Apply(t int64, c Change) {
	switch c.Kind {
	case Granted:
		r.leases[c.N].foreign = false
		r.set(c.N, c.Text, c.Expire)
	case Extended:
		r.leases[c.N].owner = c.Text
		r.extend(c.N, c.Expire)
	case Deleted:
		r.DeleteLease(c.N)
	case Fenced:
		r.setFence(c.N, c.At, c.Expire)
	case EpochSet:
		r.setEpoch(c.Text)
	case Beaten:
		r.beats[c.N].text = c.Text
		r.putBeat(c.At, c.N, c.Expire)
	case BeatGone:
		r.deleteBeat(c.N)
	case Flushed:
		r.DeleteKeys()
	case Stored:
		r.storeText(c.Name, c.Text, c.Expire)
	case Hashed:
		cmdHSet(r, t, append([]string{c.Name}, c.Words...))
	case Removed:
		r.remove(c.Name)
	case ran:
		r.at, r.again = c.At, true
		verbs[c.Name].run(r, t, c.Words)
		r.at, r.again, r.fed = 0, false, nil
		r.Wrote(c)
	}
}

// Migrate moves a key to another server.
func (r *Server) Migrate(t int64, k Key, to *Server) {
	v := r.get(k, r.NowMs(t))
	if v.expire != Forever {
		v.expire += to.NowMs(t) - r.NowMs(t)
	}
	if o := r.others[k.name]; k.kind == keyOther && o.kind == objHash {
		cmdHSet(to, t, append([]string{k.name}, o.hash...))
	} else {
		to.put(t, k, v.text, v.expire)
	}
	switch k.kind {
	case keyEpoch:
		r.setEpoch("")
	case keyFence:
		r.setFence(k.i, 0, 0)
	default:
		r.del(k)
	}
}
