package redis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// verbs holds the commands of the store, its scripts and the mutants; objects.go and streams.go add theirs. Do not range over it.
var verbs = map[string]verb{
	"GET":    {args: 1, run: cmdGet},
	"MGET":   {args: 1, run: cmdMGet},
	"SET":    {args: 2, writes: true, memory: true, run: cmdSet},
	"DEL":    {args: 1, writes: true, run: cmdDel},
	"KEYS":   {args: 1, run: cmdKeys},
	"EXISTS": {args: 1, run: cmdExists},
	"PTTL":   {args: 1, run: cmdPTTL},
	"PEXPIRE": {args: 2, writes: true, run: func(r *Server, t int64, args []string) Reply {
		return cmdExpire(r, t, args, r.NowMs(t))
	}},
	"PEXPIREAT": {args: 2, writes: true, run: func(r *Server, t int64, args []string) Reply { return cmdExpire(r, t, args, 0) }},
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
		panic(fmt.Sprintf("redis: the command %s is not modelled", name))
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

// cmdSet supports NX and PX.
func cmdSet(r *Server, t int64, args []string) Reply {
	now := r.NowMs(t)
	expire, fresh := Forever, false
	for i := 2; i < len(args); i++ {
		switch strings.ToUpper(args[i]) {
		case "NX":
			fresh = true
		case "PX":
			if i++; i == len(args) {
				return Refusal(textSyntax)
			}
			ms, err := strconv.ParseInt(args[i], 10, 64)
			switch {
			case err != nil:
				return Refusal(textNotInteger)
			case ms <= 0:
				return Refusal("ERR invalid expire time in 'set' command")
			}
			expire = now + ms
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
		panic(fmt.Sprintf("redis: KEYS %s is not modelled", args[0]))
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

// cmdExpire makes a key expire n ms after base, or deletes it if that time is not in the future.
func cmdExpire(r *Server, t int64, args []string, base int64) Reply {
	n, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return Refusal(textNotInteger)
	}
	now := r.NowMs(t)
	k := r.keyAt(args[0])
	switch expire := base + n; {
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
		panic(fmt.Sprintf("redis: SCAN %v is not modelled", args))
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
