package redis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// Reply is nil, int64, string, status, []reply or a refusal.
type Reply any

type status string

type Refusal string

func (r Refusal) Error() string { return string(r) }

// Plain returns a reply without its types.
func Plain(v Reply) any {
	switch v := v.(type) {
	case status:
		return string(v)
	case []Reply:
		all := make([]any, len(v))
		for i := range v {
			all[i] = Plain(v[i])
		}
		return all
	}
	return v
}

type keyKind uint8

const (
	keyOther keyKind = iota
	keyLease
	keyFence
	keyBeat
	keyEpoch
)

type Key struct {
	kind keyKind
	i    int32
	name string
}

type value struct {
	there   bool
	foreign bool
	text    string
	expire  int64 // ms, or forever
}

const (
	electionLeader = "sovereign:leader"
	ElectionBeats  = "sovereign:heartbeat:"
)

func (r *Server) groupKey() string { return r.Config.EpochKey + ":group" }

func (r *Server) keyAt(name string) Key {
	if id, ok := strings.CutPrefix(name, r.Config.LeasePrefix); ok {
		return Key{keyLease, r.Lease(id), name}
	}
	if rest, ok := strings.CutPrefix(name, "{"); ok && strings.HasPrefix(rest, r.Config.LeasePrefix) {
		if id, ok := strings.CutSuffix(rest[len(r.Config.LeasePrefix):], "}:fence"); ok {
			return Key{keyFence, r.Lease(id), name}
		}
	}
	for _, prefix := range []string{r.Config.NodePrefix, ElectionBeats} {
		if id, ok := strings.CutPrefix(name, prefix); ok {
			return Key{keyBeat, r.Beat(id), name}
		}
	}
	switch name {
	case electionLeader:
		return Key{keyLease, r.Lease(name), name}
	case "{" + electionLeader + "}:fence":
		return Key{keyFence, r.Lease(electionLeader), name}
	case r.Config.EpochKey:
		return Key{kind: keyEpoch, name: name}
	}
	return Key{kind: keyOther, name: name}
}

// get reads a key, after deleting it if it has expired.
func (r *Server) get(k Key, now int64) value {
	switch k.kind {
	case keyLease:
		r.ExpireLease(k.i, now)
		l := &r.leases[k.i]
		return value{l.there(), l.foreign, l.owner, l.expire}
	case keyFence:
		l := &r.leases[k.i]
		l.expireFence(now)
		text := l.fenceText
		if l.fence != 0 {
			text = strconv.FormatInt(l.fence, 10)
		}
		return value{l.fenced(), l.fenceForeign, text, l.fenceExpire}
	case keyBeat:
		r.ExpireBeat(k.i, now)
		b := &r.beats[k.i]
		return value{b.set, false, cmp.Or(b.text, "1"), b.expire}
	case keyEpoch:
		return value{r.Epoch != "", false, r.Epoch, Forever}
	}
	o := r.other(k.name, now)
	if o == nil {
		return value{}
	}
	return value{true, o.kind != objString, o.text, o.expire}
}

func (r *Server) put(t int64, k Key, text string, expire int64) {
	now := r.NowMs(t)
	switch k.kind {
	case keyLease:
		r.ExpireLease(k.i, now)
		r.leases[k.i].foreign = false
		r.set(k.i, text, expire)
	case keyFence:
		l := &r.leases[k.i]
		l.fenceForeign, l.fence, l.fenceText, l.fenceExpire = false, 0, "", expire
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && n < 1<<53 && strconv.FormatInt(n, 10) == text {
			r.setFence(k.i, n, expire)
		} else {
			l.fenceText = text
		}
	case keyBeat:
		r.ExpireBeat(k.i, now)
		r.beats[k.i].text = cmp.Or(r.staleBeats[k.i], text)
		r.putBeat(t, k.i, expire)
	case keyEpoch:
		r.setEpoch(text)
	case keyOther:
		r.storeText(k.name, text, expire)
	}
}

func (r *Server) until(t int64, k Key, expire int64) {
	switch k.kind {
	case keyLease:
		r.extend(k.i, expire)
	case keyFence:
		r.leases[k.i].fenceExpire = expire
	case keyBeat:
		r.putBeat(t, k.i, expire)
	case keyEpoch:
		panic("virtual: an epoch key with an end is not modelled")
	case keyOther:
		o := r.others[k.name]
		o.expire = expire
		if o.kind == objString {
			r.Wrote(Change{Kind: Stored, Name: k.name, Text: o.text, Expire: expire})
		}
	}
}

func (r *Server) del(k Key) {
	switch k.kind {
	case keyLease:
		r.DeleteLease(k.i)
	case keyFence:
		l := &r.leases[k.i]
		l.fence, l.fenceText, l.fenceForeign = 0, "", false
	case keyBeat:
		r.deleteBeat(k.i)
	case keyEpoch:
		r.Epoch = ""
	case keyOther:
		r.remove(k.name)
	}
}

type verb struct {
	args   int // minimum number
	writes bool
	memory bool   // refused when memory is full
	makes  string // first argument that needs memory too
	again  bool   // replicas execute it too, unless the master refused it
	run    func(r *Server, t int64, args []string) Reply
}

func (v verb) needsMemory(args []string) bool {
	return v.memory || v.makes != "" && strings.EqualFold(args[0], v.makes)
}

// verbs holds the commands of the store, its scripts and the mutants. Do not range over it.
var verbs = map[string]verb{
	"GET":    {args: 1, run: cmdGet},
	"MGET":   {args: 1, run: cmdMGet},
	"SET":    {args: 2, writes: true, memory: true, run: cmdSet},
	"INCR":   {args: 1, writes: true, memory: true, run: cmdIncr},
	"DEL":    {args: 1, writes: true, run: cmdDel},
	"KEYS":   {args: 1, run: cmdKeys},
	"EXISTS": {args: 1, run: cmdExists},
	"PTTL":   {args: 1, run: cmdPTTL},
	"PEXPIRE": {args: 2, writes: true, run: func(r *Server, t int64, args []string) Reply {
		return cmdExpire(r, t, args, 1, r.NowMs(t))
	}},
	"EXPIRE": {args: 2, writes: true, run: func(r *Server, t int64, args []string) Reply {
		return cmdExpire(r, t, args, 1000, r.NowMs(t))
	}},
	"PEXPIREAT": {args: 2, writes: true, run: func(r *Server, t int64, args []string) Reply { return cmdExpire(r, t, args, 1, 0) }},
	"FLUSHALL": {writes: true, run: func(r *Server, _ int64, _ []string) Reply {
		r.flush()
		return status("OK")
	}},
	"TIME": {run: func(r *Server, t int64, _ []string) Reply {
		us := r.nowUs(t)
		return []Reply{strconv.FormatInt(us/1_000_000, 10), strconv.FormatInt(us%1_000_000, 10)}
	}},
	"INFO": {run: func(r *Server, t int64, args []string) Reply {
		text := fmt.Sprintf("# Server\r\nrun_id:%s\r\nsync_full:%d\r\nsync_partial_ok:%d\r\nconnected_slaves:%d\r\n",
			r.RunID, r.SyncFull, r.SyncPartial, r.Connected)
		if len(args) > 0 && args[0] == "everything" {
			text += r.everything(t)
		}
		return text
	}},
	"PUBLISH": {args: 2, run: func(r *Server, _ int64, args []string) Reply {
		if args[0] != r.Config.Channel {
			r.Config.Shout(args[1])
		} else if n, ok := redisstore.ParseNotice(args[1]); ok {
			r.Config.Publish(n)
		}
		return int64(0)
	}},
	"PING":    {run: func(*Server, int64, []string) Reply { return status("PONG") }},
	"PERSIST": {args: 1, writes: true, run: cmdPersist},
	"SCAN":    {args: 1, run: cmdScan},
}

func init() {
	maps.Copy(verbs, objectVerbs)
	maps.Copy(verbs, streamVerbs)
}

const (
	textWrongType  = "WRONGTYPE Operation against a key holding the wrong kind of value"
	textNotInteger = "ERR value is not an integer or out of range"
	textSyntax     = "ERR syntax error"
)

// direct executes one command of a client at true time t.
func (r *Server) direct(t int64, name string, args []string) Reply {
	name = strings.ToUpper(name)
	if v := verbs[name]; len(args) >= v.args {
		if why := r.refused(name, v, args); why != "" {
			return Refusal(why)
		}
	}
	r.dirty = true // refused has checked the memory
	return r.command(t, name, args)
}

// command executes one command of a script at true time t.
func (r *Server) command(t int64, name string, args []string) Reply {
	name = strings.ToUpper(name)
	v, ok := verbs[name]
	switch {
	case !ok:
		panic(fmt.Sprintf("virtual: the command %s is not modelled", name))
	case len(args) < v.args:
		return Refusal("ERR wrong number of arguments for '" + strings.ToLower(name) + "' command")
	}
	if r.deniesOne(args) {
		return Refusal(textScriptKey)
	}
	if v.writes && !r.mayWrite(name, v.needsMemory(args)) {
		return Refusal(r.why)
	}
	got := v.run(r, t, args)
	if _, refused := got.(Refusal); v.again && !refused {
		r.ranAgain(name, args, r.NowMs(t))
	}
	return got
}

func cmdGet(r *Server, t int64, args []string) Reply {
	switch v := r.get(r.keyAt(args[0]), r.NowMs(t)); {
	case v.foreign:
		return Refusal(textWrongType)
	case v.there:
		return v.text
	}
	return nil
}

func cmdMGet(r *Server, t int64, args []string) Reply {
	out := make([]Reply, len(args))
	for i, name := range args {
		if v := r.get(r.keyAt(name), r.NowMs(t)); v.there && !v.foreign {
			out[i] = v.text
		}
	}
	return out
}

// cmdSet supports NX, PX and EX.
func cmdSet(r *Server, t int64, args []string) Reply {
	now := r.NowMs(t)
	expire, fresh := Forever, false
	for i := 2; i < len(args); i++ {
		switch strings.ToUpper(args[i]) {
		case "NX":
			fresh = true
		case "PX", "EX":
			if i++; i == len(args) {
				return Refusal(textSyntax)
			}
			n, err := strconv.ParseInt(args[i], 10, 64)
			if err != nil {
				return Refusal(textNotInteger)
			}
			if n <= 0 {
				return Refusal("ERR invalid expire time in 'set' command")
			}
			if strings.EqualFold(args[i-1], "EX") {
				n *= 1000
			}
			expire = now + n
		default:
			return Refusal(textSyntax)
		}
	}
	k := r.keyAt(args[0])
	if fresh && r.get(k, now).there {
		return nil
	}
	r.put(t, k, args[1], expire)
	return status("OK")
}

func cmdIncr(r *Server, t int64, args []string) Reply {
	now := r.NowMs(t)
	k := r.keyAt(args[0])
	v := r.get(k, now)
	if v.foreign {
		return Refusal(textWrongType)
	}
	n := int64(0)
	if v.there {
		var err error
		if n, err = strconv.ParseInt(v.text, 10, 64); err != nil {
			return Refusal(textNotInteger)
		}
	} else {
		v.expire = Forever
	}
	r.put(t, k, strconv.FormatInt(n+1, 10), v.expire)
	return n + 1
}

func cmdDel(r *Server, t int64, args []string) Reply {
	n := int64(0)
	for _, name := range args {
		if k := r.keyAt(name); r.get(k, r.NowMs(t)).there {
			r.del(k)
			n++
		}
	}
	return n
}

// cmdKeys supports only the pattern of an election's heartbeats.
func cmdKeys(r *Server, t int64, args []string) Reply {
	if args[0] != ElectionBeats+"*" {
		panic(fmt.Sprintf("virtual: KEYS %s is not modelled", args[0]))
	}
	var out []Reply
	for _, i := range slices.Clone(r.live) {
		if name := ElectionBeats + r.beats[i].id; r.get(Key{keyBeat, i, name}, r.NowMs(t)).there {
			out = append(out, name)
		}
	}
	return out
}

func cmdExists(r *Server, t int64, args []string) Reply { return int64(r.CountKeys(t, args)) }

func cmdPTTL(r *Server, t int64, args []string) Reply {
	now := r.NowMs(t)
	switch v := r.get(r.keyAt(args[0]), now); {
	case !v.there:
		return int64(-2)
	case v.expire == Forever:
		return int64(-1)
	default:
		return v.expire - now
	}
}

// cmdExpire makes a key expire n units after base, or deletes it if that time is not in the future.
func cmdExpire(r *Server, t int64, args []string, unit, base int64) Reply {
	n, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return Refusal(textNotInteger)
	}
	now := r.NowMs(t)
	k := r.keyAt(args[0])
	switch expire := base + n*unit; {
	case !r.get(k, now).there:
		return int64(0)
	case expire <= now:
		r.del(k)
	default:
		r.until(t, k, expire)
	}
	return int64(1)
}

func cmdPersist(r *Server, t int64, args []string) Reply {
	k := r.keyAt(args[0])
	if v := r.get(k, r.NowMs(t)); !v.there || v.expire == Forever {
		return int64(0)
	}
	r.until(t, k, Forever)
	return int64(1)
}

// cmdScan returns all keys in one answer. It supports only prefix patterns of leases.
func cmdScan(r *Server, t int64, args []string) Reply {
	i := slices.IndexFunc(args, func(a string) bool { return strings.EqualFold(a, "MATCH") })
	if i < 0 || i+1 == len(args) || !strings.HasSuffix(args[i+1], "*") || !strings.HasPrefix(args[i+1], r.Config.LeasePrefix) {
		panic(fmt.Sprintf("virtual: SCAN %v is not modelled", args))
	}
	prefix := strings.TrimSuffix(args[i+1], "*")
	out := []Reply{}
	for k := range r.leases {
		name := r.Config.LeasePrefix + r.leases[k].id
		if strings.HasPrefix(name, prefix) && r.get(Key{keyLease, int32(k), name}, r.NowMs(t)).there {
			out = append(out, name)
		}
	}
	return []Reply{"0", out}
}
