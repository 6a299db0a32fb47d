package redis

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

func init() {
	maps.Copy(verbs, streamVerbs)
}

// cmdXAdd supports the ID *, and MAXLEN ~, with which Redis trims whole nodes of 100 entries.
func cmdXAdd(r *Server, t int64, args []string) Reply {
	name, rest, keep := args[0], args[1:], 0
	if len(rest) > 3 && strings.EqualFold(rest[0], "MAXLEN") && rest[1] == "~" {
		keep, _ = strconv.Atoi(rest[2])
		rest = rest[3:]
	}
	if len(rest) < 3 || rest[0] != "*" || len(rest)%2 != 1 {
		return Refusal("ERR wrong number of arguments for 'xadd' command")
	}
	o, wrong := r.find(t, name, objStream)
	if wrong {
		return Refusal(textWrongType)
	}
	if o == nil {
		o = r.create(name, newStream())
	}
	s := o.stream
	id := streamID{ms: r.NowMs(t)}
	if id.compare(s.last) <= 0 {
		id = streamID{s.last.ms, s.last.seq + 1}
	}
	s.last = id
	s.entries = append(s.entries, streamEntry{id, slices.Clone(rest[1:])})
	for keep > 0 && len(s.entries)-keep >= 100 {
		s.entries = slices.Delete(s.entries, 0, 100)
	}
	r.touch(name)
	r.Wrote(Change{Kind: Added, Name: name, Words: rest[1:]})
	r.fed = append(r.fed, name)
	return id.String()
}

func cmdXLen(_ *Server, _ int64, o *object, _ []string) Reply { return int64(len(o.stream.entries)) }

// cmdXDel leaves deleted entries pending.
func cmdXDel(_ *Server, _ int64, o *object, ids []string) Reply {
	n := int64(0)
	for _, text := range ids {
		id, ok := parseID(text, 0)
		if !ok {
			return Refusal(textStreamID)
		}
		if at, there := o.stream.find(id); there {
			o.stream.entries = slices.Delete(o.stream.entries, at, at+1)
			n++
		}
	}
	return n
}

const textStreamID = "ERR Invalid stream ID specified as stream command argument"

// cmdXRange supports -, +, (x and COUNT.
func cmdXRange(_ *Server, _ int64, o *object, args []string) Reply {
	from, open := strings.CutPrefix(args[0], "(")
	low, high, ok := idRange(from, args[1])
	if !ok {
		return Refusal(textStreamID)
	}
	count := 1 << 30
	if len(args) == 4 && strings.EqualFold(args[2], "COUNT") {
		count, _ = strconv.Atoi(args[3])
	}
	if count == 0 {
		return nil
	}
	out := []Reply{}
	for i := range o.stream.entries {
		e := &o.stream.entries[i]
		if c := e.id.compare(low); c < 0 || c == 0 && open || e.id.compare(high) > 0 || len(out) >= count {
			continue
		}
		out = append(out, e.reply())
	}
	return out
}

func noGroup(key, group string) Refusal {
	return Refusal(fmt.Sprintf("NOGROUP No such key '%s' or consumer group '%s'", key, group))
}

// cmdXGroup supports CREATE … 0 MKSTREAM and DELCONSUMER.
func cmdXGroup(r *Server, t int64, args []string) Reply {
	verb, name, group := strings.ToUpper(args[0]), args[1], args[2]
	o, wrong := r.find(t, name, objStream)
	if wrong {
		return Refusal(textWrongType)
	}
	switch verb {
	case "CREATE":
		if o == nil {
			o = r.create(name, newStream())
		}
		if o.stream.groups[group] != nil {
			return Refusal("BUSYGROUP Consumer Group name already exists")
		}
		o.stream.groups[group] = &streamGroup{}
		return status("OK")
	case "DELCONSUMER":
		g := groupOf(o, group)
		switch {
		case o == nil:
			return Refusal("ERR The XGROUP subcommand requires the key to exist.")
		case g == nil:
			return noGroup(name, group)
		}
		had := int64(0)
		g.pending = slices.DeleteFunc(g.pending, func(p pending) bool {
			if p.consumer == args[3] {
				had++
			}
			return p.consumer == args[3]
		})
		g.consumers = slices.DeleteFunc(g.consumers, func(c string) bool { return c == args[3] })
		return had
	}
	return unknownSubcommand("XGROUP", args[0])
}

func groupOf(o *object, name string) *streamGroup {
	if o == nil {
		return nil
	}
	return o.stream.groups[name]
}

// group finds a consumer group. If there is none, no is the refusal, with where at its end.
func (r *Server) group(t int64, key, name, where string) (o *object, g *streamGroup, no Refusal) {
	o, wrong := r.find(t, key, objStream)
	if wrong {
		return nil, nil, textWrongType
	}
	if g = groupOf(o, name); g == nil {
		no = noGroup(key, name) + Refusal(where)
	}
	return o, g, no
}

func cmdXAck(_ *Server, _ int64, o *object, args []string) Reply {
	g := groupOf(o, args[0])
	n := int64(0)
	for _, text := range args[1:] {
		id, ok := parseID(text, 0)
		if !ok {
			return Refusal(textStreamID)
		}
		if g == nil {
			continue
		}
		if at, there := g.find(id); there {
			g.pending = slices.Delete(g.pending, at, at+1)
			n++
		}
	}
	return n
}

// cmdXPending supports the summary, and a range with IDLE and a consumer.
func cmdXPending(r *Server, t int64, args []string) Reply {
	_, g, no := r.group(t, args[0], args[1], "")
	if no != "" {
		return no
	}
	if len(args) == 2 {
		return g.summary()
	}
	rest, idle := args[2:], int64(0)
	if strings.EqualFold(rest[0], "IDLE") {
		idle, _ = strconv.ParseInt(rest[1], 10, 64)
		rest = rest[2:]
	}
	count, err := strconv.Atoi(rest[2])
	if err != nil {
		return Refusal(textSyntax)
	}
	low, high, ok := idRange(rest[0], rest[1])
	if !ok {
		return Refusal(textStreamID)
	}
	now, out := r.NowMs(t), []Reply{}
	for _, p := range g.pending {
		if p.id.compare(low) < 0 || p.id.compare(high) > 0 {
			continue
		}
		if len(out) < count && now-p.at >= idle && (len(rest) < 4 || p.consumer == rest[3]) {
			out = append(out, []Reply{p.id.String(), p.consumer, max(0, now-p.at), p.tries})
		}
	}
	return out
}

func (g *streamGroup) summary() Reply {
	if len(g.pending) == 0 {
		return []Reply{int64(0), nil, nil, nil}
	}
	var each []Reply
	for _, c := range g.consumers {
		n := 0
		for _, p := range g.pending {
			if p.consumer == c {
				n++
			}
		}
		if n > 0 {
			each = append(each, []Reply{c, strconv.Itoa(n)})
		}
	}
	return []Reply{int64(len(g.pending)), g.pending[0].id.String(), g.pending[len(g.pending)-1].id.String(), each}
}

// cmdXClaim is XCLAIM key group consumer min-idle ID …. Deleted entries leave the pending list.
func cmdXClaim(r *Server, t int64, args []string) Reply {
	o, g, no := r.group(t, args[0], args[1], "")
	if no != "" {
		return no
	}
	idle, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return Refusal("ERR Invalid min-idle-time argument for XCLAIM")
	}
	now, out := r.NowMs(t), []Reply{}
	for _, text := range args[4:] {
		id, ok := parseID(text, 0)
		if !ok {
			return Refusal(textStreamID)
		}
		at, there := g.find(id)
		if !there {
			continue
		}
		e, kept := o.stream.find(id)
		if !kept {
			g.pending = slices.Delete(g.pending, at, at+1)
			continue
		}
		p := &g.pending[at]
		if now-p.at < idle {
			continue
		}
		g.consumer(args[2])
		p.consumer, p.at, p.tries = args[2], now, p.tries+1
		out = append(out, o.stream.entries[e].reply())
	}
	return out
}

func cmdXInfo(r *Server, t int64, args []string) Reply {
	o, wrong := r.find(t, args[1], objStream)
	switch {
	case !strings.EqualFold(args[0], "GROUPS"):
		return unknownSubcommand("XINFO", args[0])
	case wrong:
		return Refusal(textWrongType)
	case o == nil:
		return Refusal("ERR no such key")
	}
	out := []Reply{}
	for _, name := range slices.Sorted(maps.Keys(o.stream.groups)) {
		g := o.stream.groups[name]
		out = append(out, []Reply{"name", name, "consumers", int64(len(g.consumers)), "pending", int64(len(g.pending))})
	}
	return out
}

// WaitFor is the result of a command that blocks.
type WaitFor struct {
	Key      string // stream that needs an entry; "": the command is WAIT
	Replicas int    // whose acknowledgement WAIT needs
	Block    int64  // ms
}

// cmdXReadGroup is XREADGROUP GROUP g c COUNT n BLOCK ms STREAMS key >.
func cmdXReadGroup(r *Server, t int64, args []string) Reply {
	group, consumer, count, block, key := args[1], args[2], 1<<30, int64(-1), ""
	for i := 3; i+1 < len(args); i += 2 {
		switch strings.ToUpper(args[i]) {
		case "COUNT":
			count, _ = strconv.Atoi(args[i+1])
		case "BLOCK":
			block, _ = strconv.ParseInt(args[i+1], 10, 64)
		case "STREAMS":
			key = args[i+1]
		}
	}
	o, g, no := r.group(t, key, group, " in XREADGROUP with GROUP option")
	if no != "" {
		return no
	}
	fresh := g.consumer(consumer)
	if count == 0 {
		count = 1 << 30
	}
	var got []Reply
	for i := range o.stream.entries {
		e := &o.stream.entries[i]
		if e.id.compare(g.last) <= 0 || len(got) >= count {
			continue
		}
		g.last = e.id
		g.pending = append(g.pending, pending{e.id, consumer, r.NowMs(t), 1})
		got = append(got, e.reply())
	}
	if fresh || len(got) > 0 {
		r.ranAgain("XREADGROUP", args, r.NowMs(t))
	}
	switch {
	case len(got) > 0:
		return []Reply{[]Reply{key, got}}
	case block >= 0:
		return WaitFor{Key: key, Block: block}
	}
	return nil
}

var streamVerbs = map[string]verb{
	"XADD":       {args: 4, writes: true, memory: true, again: true, run: cmdXAdd},
	"XLEN":       {args: 1, run: with(objStream, false, int64(0), cmdXLen)},
	"XDEL":       {args: 2, writes: true, again: true, run: with(objStream, false, int64(0), cmdXDel)},
	"XRANGE":     {args: 3, run: with(objStream, false, []Reply{}, cmdXRange)},
	"XACK":       {args: 3, writes: true, again: true, run: with(objStream, false, int64(0), cmdXAck)},
	"XGROUP":     {args: 3, writes: true, makes: "CREATE", again: true, run: cmdXGroup},
	"XPENDING":   {args: 2, run: cmdXPending},
	"XCLAIM":     {args: 5, writes: true, again: true, run: cmdXClaim},
	"XINFO":      {args: 2, keys: secondKey, run: cmdXInfo},
	"XREADGROUP": {args: 6, writes: true, run: cmdXReadGroup},
}
