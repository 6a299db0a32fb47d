package redis

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

func init() {
	maps.Copy(verbs, objectVerbs)
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
			r.create(args[0], o)
		case !fresh && empty:
			r.remove(args[0])
		}
		return got
	}
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
		r.touch(args[0])
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

// counting returns a command that applies change to each of its words, and whose reply is how often that changed something.
func counting(change func(o *object, word string) bool) func(*Server, int64, *object, []string) Reply {
	return func(_ *Server, _ int64, o *object, words []string) Reply {
		n := int64(0)
		for _, word := range words {
			if change(o, word) {
				n++
			}
		}
		return n
	}
}

func cmdSMembers(_ *Server, _ int64, o *object, _ []string) Reply { return texts(o.set) }

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
			added += o.rescore(scored{pairs[i+1], score}, only, fresh)
		}
		return added
	})(r, t, []string{name})
}

func (o *object) rescore(s scored, only, fresh bool) (added int64) {
	there := o.score(s.member) >= 0
	if only && !there || fresh && there {
		return 0
	}
	if !there {
		added = 1
	}
	o.unscore(s.member)
	at, _ := slices.BinarySearchFunc(o.zset, s, scored.before)
	o.zset = slices.Insert(o.zset, at, s)
	return added
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
	"HDEL":  {args: 2, writes: true, again: true, run: with(objHash, false, int64(0), counting((*object).unset))},

	"SADD":     {args: 2, writes: true, memory: true, again: true, run: with(objSet, true, nil, counting((*object).join))},
	"SREM":     {args: 2, writes: true, again: true, run: with(objSet, false, int64(0), counting((*object).leave))},
	"SMEMBERS": {args: 1, run: with(objSet, false, []Reply(nil), cmdSMembers)},

	"ZADD":           {args: 3, writes: true, memory: true, again: true, run: cmdZAdd},
	"ZREM":           {args: 2, writes: true, again: true, run: with(objZSet, false, int64(0), counting((*object).unscore))},
	"ZCARD":          {args: 1, run: with(objZSet, false, int64(0), cmdZCard)},
	"ZSCORE":         {args: 2, run: with(objZSet, false, nil, cmdZScore)},
	"ZRANGE":         {args: 3, run: with(objZSet, false, []Reply(nil), cmdZRange)},
	"ZRANGEBYSCORE":  {args: 3, run: with(objZSet, false, []Reply(nil), cmdZRangeByScore)},
	"ZREVRANGEBYLEX": {args: 3, run: with(objZSet, false, []Reply(nil), cmdZRevRangeByLex)},
}
