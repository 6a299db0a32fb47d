package redis

import (
	"fmt"
	"strconv"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// verbs holds the commands of the store, its scripts and the mutants; objects.go and streams.go add theirs. Do not range over it.
var verbs = map[string]verb{
	"GET":    {args: 1, most: 1, run: cmdGet},
	"MGET":   {args: 1, keys: allKeys, run: cmdMGet},
	"DEL":    {args: 1, writes: true, run: cmdDel},
	"EXISTS": {args: 1, keys: allKeys, run: cmdExists},
	"TIME": {keys: noKeys, run: func(r *Server, t int64, _ []string) Reply {
		us := r.nowUs(t)
		return []Reply{strconv.FormatInt(us/1_000_000, 10), strconv.FormatInt(us%1_000_000, 10)}
	}},
	"INFO": {keys: noKeys, run: func(r *Server, t int64, args []string) Reply {
		text := fmt.Sprintf("# Server\r\nrun_id:%s\r\nsync_full:%d\r\nsync_partial_ok:%d\r\nconnected_slaves:%d\r\n",
			r.RunID, r.SyncFull, r.SyncPartial, r.Connected)
		if len(args) > 0 && args[0] == "everything" {
			text += r.everything(t)
		}
		return text
	}},
	"PUBLISH": {args: 2, most: 2, keys: noKeys, run: cmdPublish},
	"PING":    {keys: noKeys, run: func(*Server, int64, []string) Reply { return status("PONG") }},
	"PERSIST": {args: 1, most: 1, writes: true, run: cmdPersist},
}

// direct executes one command of a client at true time t.
func (r *Server) direct(t int64, name string, args []string) Reply {
	if why := r.refused(name, verbs[name], args); why != "" {
		return Refusal(why)
	}
	r.dirty = true // refused has checked the memory
	return r.command(t, name, args)
}

// command executes one command of a script at true time t.
func (r *Server) command(t int64, name string, args []string) Reply {
	name = upper(name)
	v, known := verbs[name]
	switch {
	case v.outer:
		return Refusal("ERR This Redis command is not allowed from script")
	case !known:
		return Refusal("ERR Unknown Redis command called from script")
	case len(args) < v.args || v.most > 0 && len(args) > v.most:
		return Refusal("ERR Wrong number of args calling Redis command from script")
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
	if r.caller != nil && !v.writes {
		r.caller.remember(v.reads(args))
	}
	return got
}

// reads returns the keys that a command reads.
func (v verb) reads(args []string) []string {
	if v.keys != nil {
		return v.keys(args)
	}
	return args[:1]
}

// The keys that a command reads. Most commands read their first argument.
func noKeys([]string) []string         { return nil }
func allKeys(args []string) []string   { return args }
func secondKey(args []string) []string { return args[1:2] }

func cmdPublish(r *Server, _ int64, args []string) Reply {
	if args[0] != r.Config.Channel {
		r.Config.Shout(args[1])
	} else if n, ok := redisstore.ParseNotice(args[1]); ok {
		r.Config.Publish(n)
	}
	return r.Publish(args[0], args[1])
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

func cmdExists(r *Server, t int64, args []string) Reply { return int64(r.CountKeys(t, args)) }

func cmdPersist(r *Server, t int64, args []string) Reply {
	k := r.keyAt(args[0])
	if v := r.get(k, r.NowMs(t)); !v.there || v.expire == Forever {
		return int64(0)
	}
	r.until(t, k, Forever)
	return int64(1)
}
