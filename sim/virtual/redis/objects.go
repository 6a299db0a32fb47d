package redis

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// object is a key of the intent store or a mutant's scripts. kind selects the field. Unlike in Redis, hashes and sets are ordered.
type object struct {
	kind   objectKind
	text   string
	hash   []string // field, value, …; in order of first use
	set    []string // ascending
	zset   []scored // ascending
	stream *stream
	expire int64 // ms, or forever
}

type objectKind uint8

const (
	objString objectKind = iota
	objHash
	objSet
	objZSet
	objStream
)

type scored struct {
	member string
	score  float64
}

func (a scored) before(b scored) int {
	return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.member, b.member))
}

func (o *object) clone() *object {
	c := *o
	c.hash, c.set, c.zset = slices.Clone(o.hash), slices.Clone(o.set), slices.Clone(o.zset)
	if o.stream != nil {
		c.stream = o.stream.clone()
	}
	return &c
}

func cloneObjects(all map[string]*object) map[string]*object {
	c := make(map[string]*object, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c[name] = all[name].clone()
	}
	return c
}

// find returns an object or nil. wrong reports an object of another kind.
func (r *Server) find(t int64, name string, kind objectKind) (o *object, wrong bool) {
	k := r.keyAt(name)
	if k.kind != keyOther {
		return nil, r.get(k, r.NowMs(t)).there
	}
	if o = r.other(name, r.NowMs(t)); o == nil {
		return nil, false
	}
	return o, o.kind != kind
}

// other returns an object or nil, after deleting it if it has expired.
func (r *Server) other(name string, now int64) *object {
	o := r.others[name]
	if o != nil && now > o.expire {
		r.remove(name)
		return nil
	}
	return o
}

func (r *Server) store(name string, o *object) *object {
	if r.others == nil {
		r.others = map[string]*object{}
	}
	r.others[name] = o
	return o
}

func (r *Server) storeText(name, text string, expire int64) {
	r.store(name, &object{text: text, expire: expire})
	r.Wrote(Change{Kind: Stored, Name: name, Text: text, Expire: expire})
}

func (r *Server) remove(name string) {
	delete(r.others, name)
	r.Wrote(Change{Kind: Removed, Name: name})
}

// with runs f on the object args[0] and deletes the object if f empties it. If it is missing, made creates it, else the reply is none.
func with(kind objectKind, made bool, none Reply, f func(r *Server, t int64, o *object, args []string) Reply,
) func(*Server, int64, []string) Reply {
	return func(r *Server, t int64, args []string) Reply {
		o, wrong := r.find(t, args[0], kind)
		if wrong {
			return Refusal(textWrongType)
		}
		fresh := o == nil
		if fresh {
			if !made {
				return none
			}
			o = &object{kind: kind, expire: Forever}
		}
		got := f(r, t, o, args[1:])
		empty := kind != objStream && len(o.hash)+len(o.set)+len(o.zset) == 0
		switch {
		case fresh && !empty:
			r.store(args[0], o)
		case !fresh && empty:
			r.remove(args[0])
		}
		return got
	}
}

func (o *object) at(field string) int {
	for i := 0; i < len(o.hash); i += 2 {
		if o.hash[i] == field {
			return i + 1
		}
	}
	return -1
}

func (o *object) field(name string) Reply {
	if i := o.at(name); i >= 0 {
		return o.hash[i]
	}
	return nil
}

func cmdHSet(r *Server, t int64, args []string) Reply {
	if len(args)%2 == 0 {
		return Refusal("ERR wrong number of arguments for 'hset' command")
	}
	return with(objHash, true, nil, func(r *Server, _ int64, o *object, pairs []string) Reply {
		added := int64(0)
		for i := 0; i+1 < len(pairs); i += 2 {
			if at := o.at(pairs[i]); at >= 0 {
				o.hash[at] = pairs[i+1]
				continue
			}
			o.hash = append(o.hash, pairs[i], pairs[i+1])
			added++
		}
		r.Wrote(Change{Kind: Hashed, Name: args[0], Words: pairs})
		return added
	})(r, t, args)
}

func cmdHGet(_ *Server, _ int64, o *object, args []string) Reply { return o.field(args[0]) }

func cmdHMGet(r *Server, t int64, args []string) Reply {
	none := make([]Reply, len(args)-1)
	return with(objHash, false, none, func(_ *Server, _ int64, o *object, fields []string) Reply {
		for i, f := range fields {
			none[i] = o.field(f)
		}
		return none
	})(r, t, args)
}

func cmdHDel(_ *Server, _ int64, o *object, fields []string) Reply {
	n := int64(0)
	for _, f := range fields {
		if at := o.at(f); at >= 0 {
			o.hash = slices.Delete(o.hash, at-1, at+1)
			n++
		}
	}
	return n
}

func texts(words []string) []Reply {
	out := make([]Reply, len(words))
	for i, word := range words {
		out[i] = word
	}
	return out
}

func cmdSAdd(_ *Server, _ int64, o *object, members []string) Reply {
	n := int64(0)
	for _, m := range members {
		if at, there := slices.BinarySearch(o.set, m); !there {
			o.set = slices.Insert(o.set, at, m)
			n++
		}
	}
	return n
}

func cmdSRem(_ *Server, _ int64, o *object, members []string) Reply {
	n := int64(0)
	for _, m := range members {
		if at, there := slices.BinarySearch(o.set, m); there {
			o.set = slices.Delete(o.set, at, at+1)
			n++
		}
	}
	return n
}

func cmdSMembers(_ *Server, _ int64, o *object, _ []string) Reply { return texts(o.set) }

func (o *object) score(member string) int {
	return slices.IndexFunc(o.zset, func(s scored) bool { return s.member == member })
}

func (o *object) unscore(member string) bool {
	at := o.score(member)
	if at >= 0 {
		o.zset = slices.Delete(o.zset, at, at+1)
	}
	return at >= 0
}

// cmdZAdd supports XX and NX.
func cmdZAdd(r *Server, t int64, args []string) Reply {
	name, pairs := args[0], args[1:]
	var option string
	if len(pairs)%2 == 1 {
		option, pairs = strings.ToUpper(pairs[0]), pairs[1:]
	}
	only, fresh := option == "XX", option == "NX"
	if len(pairs) == 0 || option != "" && !only && !fresh {
		return Refusal(textSyntax)
	}
	return with(objZSet, !only, int64(0), func(_ *Server, _ int64, o *object, _ []string) Reply {
		added := int64(0)
		for i := 0; i < len(pairs); i += 2 {
			score, err := strconv.ParseFloat(pairs[i], 64)
			if err != nil {
				return Refusal("ERR value is not a valid float")
			}
			there := o.score(pairs[i+1]) >= 0
			if only && !there || fresh && there {
				continue
			}
			if !there {
				added++
			}
			o.unscore(pairs[i+1])
			s := scored{pairs[i+1], score}
			at, _ := slices.BinarySearchFunc(o.zset, s, scored.before)
			o.zset = slices.Insert(o.zset, at, s)
		}
		return added
	})(r, t, []string{name})
}

func cmdZRem(_ *Server, _ int64, o *object, members []string) Reply {
	n := int64(0)
	for _, m := range members {
		if o.unscore(m) {
			n++
		}
	}
	return n
}

func cmdZCard(_ *Server, _ int64, o *object, _ []string) Reply { return int64(len(o.zset)) }

func cmdZScore(_ *Server, _ int64, o *object, args []string) Reply {
	if at := o.score(args[0]); at >= 0 {
		return scoreText(o.zset[at].score)
	}
	return nil
}

func scoreText(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func cmdZRange(_ *Server, _ int64, o *object, args []string) Reply {
	from, err := strconv.Atoi(args[0])
	to, err2 := strconv.Atoi(args[1])
	if err != nil || err2 != nil {
		return Refusal(textNotInteger)
	}
	if to < 0 {
		to += len(o.zset)
	}
	var out []Reply
	for i := max(0, from); i <= min(to, len(o.zset)-1); i++ {
		out = append(out, o.zset[i].member)
		if len(args) > 2 && strings.EqualFold(args[2], "WITHSCORES") {
			out = append(out, scoreText(o.zset[i].score))
		}
	}
	return out
}

// cut applies LIMIT offset count, if given.
func cut(out []Reply, args []string) []Reply {
	if len(args) != 3 || !strings.EqualFold(args[0], "LIMIT") {
		return out
	}
	offset, _ := strconv.Atoi(args[1])
	count, _ := strconv.Atoi(args[2])
	out = out[min(offset, len(out)):]
	if count < 0 {
		return out
	}
	return out[:min(count, len(out))]
}

// cmdZRangeByScore supports ( and LIMIT.
func cmdZRangeByScore(_ *Server, _ int64, o *object, args []string) Reply {
	from, above := strings.CutPrefix(args[0], "(")
	to, below := strings.CutPrefix(args[1], "(")
	low, err := strconv.ParseFloat(from, 64)
	high, err2 := strconv.ParseFloat(to, 64)
	if err != nil || err2 != nil {
		return Refusal("ERR min or max is not a float")
	}
	var out []Reply
	for _, s := range o.zset {
		if (s.score > low || !above && s.score == low) && (s.score < high || !below && s.score == high) {
			out = append(out, s.member)
		}
	}
	return cut(out, args[2:])
}

// cmdZRevRangeByLex supports +, (x and -.
func cmdZRevRangeByLex(_ *Server, _ int64, o *object, args []string) Reply {
	top, open := strings.CutPrefix(args[0], "(")
	var out []Reply
	for _, s := range slices.Backward(o.zset) {
		if args[0] == "+" || open && s.member < top {
			out = append(out, s.member)
		}
	}
	return cut(out, args[2:])
}

var objectVerbs = map[string]verb{
	"HSET":  {args: 3, writes: true, memory: true, run: cmdHSet},
	"HGET":  {args: 2, run: with(objHash, false, nil, cmdHGet)},
	"HMGET": {args: 2, run: cmdHMGet},
	"HDEL":  {args: 2, writes: true, again: true, run: with(objHash, false, int64(0), cmdHDel)},

	"SADD":     {args: 2, writes: true, memory: true, again: true, run: with(objSet, true, nil, cmdSAdd)},
	"SREM":     {args: 2, writes: true, again: true, run: with(objSet, false, int64(0), cmdSRem)},
	"SMEMBERS": {args: 1, run: with(objSet, false, []Reply(nil), cmdSMembers)},

	"ZADD":           {args: 3, writes: true, memory: true, again: true, run: cmdZAdd},
	"ZREM":           {args: 2, writes: true, again: true, run: with(objZSet, false, int64(0), cmdZRem)},
	"ZCARD":          {args: 1, run: with(objZSet, false, int64(0), cmdZCard)},
	"ZSCORE":         {args: 2, run: with(objZSet, false, nil, cmdZScore)},
	"ZRANGE":         {args: 3, run: with(objZSet, false, []Reply(nil), cmdZRange)},
	"ZRANGEBYSCORE":  {args: 3, run: with(objZSet, false, []Reply(nil), cmdZRangeByScore)},
	"ZREVRANGEBYLEX": {args: 3, run: with(objZSet, false, []Reply(nil), cmdZRevRangeByLex)},
}
