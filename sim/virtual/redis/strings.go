package redis

import (
	"maps"
	"math"
	"slices"
	"strconv"
)

func init() {
	maps.Copy(verbs, stringVerbs)
}

// putting are the options of SET and GETEX.
type putting struct {
	fresh, only, keep, old, persist bool

	expiry
}

// expiry is an option such as PX.
type expiry struct{ option, text string }

// parsePutting parses options. allowed lists them.
func parsePutting(words []string, allowed ...string) (p putting, ok bool) {
	for i := 0; i < len(words); i++ {
		option := upper(words[i])
		if !slices.Contains(allowed, option) {
			return p, false
		}
		switch option {
		case "NX":
			p.fresh = true
		case "XX":
			p.only = true
		case "GET":
			p.old = true
		case "KEEPTTL":
			p.keep = true
		case "PERSIST":
			p.persist = true
		default:
			if i++; i == len(words) || p.option != "" {
				return p, false
			}
			p.expiry = expiry{option, words[i]}
		}
	}
	timed := p.option != ""
	return p, !(p.fresh && p.only) && !(timed && (p.keep || p.persist))
}

// until returns the expiry in ms, given the time now, or why there is none.
func (e expiry) until(now int64, command string) (ms int64, no Refusal) {
	if e.option == "" {
		return Forever, ""
	}
	n, err := strconv.ParseInt(e.text, 10, 64)
	invalid := Refusal("ERR invalid expire time in '" + command + "' command")
	switch {
	case err != nil:
		return 0, textNotInteger
	case n <= 0:
		return 0, invalid
	}
	if e.option == "EX" || e.option == "EXAT" {
		if n > math.MaxInt64/1000 {
			return 0, invalid
		}
		n *= 1000
	}
	if e.option == "EX" || e.option == "PX" {
		if n > math.MaxInt64-now {
			return 0, invalid
		}
		n += now
	}
	return min(n, Forever-1), ""
}

func cmdSet(r *Server, t int64, args []string) Reply {
	p, ok := parsePutting(args[2:], "NX", "XX", "GET", "KEEPTTL", "EX", "PX", "EXAT", "PXAT")
	if !ok {
		return Refusal(textSyntax)
	}
	now := r.NowMs(t)
	expire, no := p.until(now, "set")
	if no != "" {
		return no
	}
	k := r.keyAt(args[0])
	v := r.get(k, now)
	var done, failed Reply = status("OK"), nil
	if p.old {
		if v.foreign {
			return Refusal(textWrongType)
		}
		done, failed = v.reply(), v.reply()
	}
	if p.fresh && v.there || p.only && !v.there {
		return failed
	}
	if p.keep && v.there {
		expire = v.expire
	}
	r.put(t, k, args[1], expire)
	return done
}

func (v value) reply() Reply {
	if !v.there {
		return nil
	}
	return v.text
}

// onText returns a command on the string args[0], which may be missing.
func onText(f func(r *Server, t int64, k Key, v value, args []string) Reply) func(*Server, int64, []string) Reply {
	return func(r *Server, t int64, args []string) Reply {
		k := r.keyAt(args[0])
		v := r.get(k, r.NowMs(t))
		if v.foreign {
			return Refusal(textWrongType)
		}
		if !v.there {
			v = value{expire: Forever}
		}
		return f(r, t, k, v, args[1:])
	}
}

// onNumbers is onText for a command whose other arguments are integers.
func onNumbers(f func(r *Server, t int64, k Key, v value, args []string) Reply) func(*Server, int64, []string) Reply {
	return func(r *Server, t int64, args []string) Reply {
		for _, arg := range args[1:] {
			if _, err := strconv.ParseInt(arg, 10, 64); err != nil {
				return Refusal(textNotInteger)
			}
		}
		return onText(f)(r, t, args)
	}
}

func cmdGetSet(r *Server, t int64, k Key, v value, args []string) Reply {
	r.put(t, k, args[0], Forever)
	return v.reply()
}

func cmdGetDel(r *Server, _ int64, k Key, v value, _ []string) Reply {
	if v.there {
		r.del(k)
	}
	return v.reply()
}

func cmdGetEx(r *Server, t int64, args []string) Reply {
	p, ok := parsePutting(args[1:], "PERSIST", "EX", "PX", "EXAT", "PXAT")
	if !ok {
		return Refusal(textSyntax)
	}
	return onText(func(r *Server, t int64, k Key, v value, _ []string) Reply {
		now := r.NowMs(t)
		expire, no := p.until(now, "getex")
		switch {
		case !v.there:
			return nil
		case no != "":
			return no
		case expire <= now:
			r.del(k)
		case p.option != "" || p.persist && v.expire != Forever:
			r.until(t, k, expire)
		}
		return v.text
	})(r, t, args)
}

func cmdSetNX(r *Server, t int64, args []string) Reply {
	k := r.keyAt(args[0])
	if r.get(k, r.NowMs(t)).there {
		return int64(0)
	}
	r.put(t, k, args[1], Forever)
	return int64(1)
}

// setEx returns SETEX or PSETEX.
func setEx(command, option string) func(*Server, int64, []string) Reply {
	return func(r *Server, t int64, args []string) Reply {
		expire, no := expiry{option, args[1]}.until(r.NowMs(t), command)
		if no != "" {
			return no
		}
		r.put(t, r.keyAt(args[0]), args[2], expire)
		return status("OK")
	}
}

// adding returns INCR and its like. sign applies to the argument, if there is one.
func adding(sign int64) func(*Server, int64, Key, value, []string) Reply {
	return func(r *Server, t int64, k Key, v value, args []string) Reply {
		n, by := int64(0), int64(1)
		var err error
		if len(args) > 0 {
			by, _ = strconv.ParseInt(args[0], 10, 64)
		}
		if v.there {
			n, err = strconv.ParseInt(v.text, 10, 64)
		}
		switch {
		case sign < 0 && by == math.MinInt64:
			return Refusal("ERR decrement would overflow")
		case err != nil || v.there && strconv.FormatInt(n, 10) != v.text:
			return Refusal(textNotInteger)
		}
		by *= sign
		if by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by {
			return Refusal("ERR increment or decrement would overflow")
		}
		r.put(t, k, strconv.FormatInt(n+by, 10), v.expire)
		return n + by
	}
}

func cmdAppend(r *Server, t int64, k Key, v value, args []string) Reply {
	r.put(t, k, v.text+args[0], v.expire)
	return int64(len(v.text) + len(args[0]))
}

func cmdStrLen(_ *Server, _ int64, _ Key, v value, _ []string) Reply { return int64(len(v.text)) }

func cmdGetRange(_ *Server, _ int64, _ Key, v value, args []string) Reply {
	from, _ := strconv.Atoi(args[0])
	to, _ := strconv.Atoi(args[1])
	n := len(v.text)
	if from < 0 && to < 0 && from > to {
		return ""
	}
	if from < 0 {
		from = max(0, from+n)
	}
	if to < 0 {
		to = max(0, to+n)
	}
	if to = min(to, n-1); from > to {
		return ""
	}
	return v.text[from : to+1]
}

func cmdMSet(r *Server, t int64, args []string) Reply {
	if len(args)%2 != 0 {
		return wrongNumber("mset")
	}
	for i := 0; i < len(args); i += 2 {
		r.put(t, r.keyAt(args[i]), args[i+1], Forever)
	}
	return status("OK")
}

// expiring returns EXPIRE and its like. A unit has ms.
func expiring(command string, unit int64, absolute bool) func(*Server, int64, []string) Reply {
	return func(r *Server, t int64, args []string) Reply {
		if no := expireOptions(args[2:]); no != "" {
			return no
		}
		n, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return Refusal(textNotInteger)
		}
		now := r.NowMs(t)
		base := now
		if absolute {
			base = 0
		}
		if n > (math.MaxInt64-base)/unit || n < math.MinInt64/unit {
			return Refusal("ERR invalid expire time in '" + command + "' command")
		}
		k := r.keyAt(args[0])
		v := r.get(k, now)
		expire := min(base+n*unit, Forever-1)
		switch {
		case !v.there || !mayExpire(args[2:], v.expire, expire):
			return int64(0)
		case expire <= now:
			r.del(k)
		default:
			r.until(t, k, expire)
		}
		return int64(1)
	}
}

func expireOptions(words []string) Refusal {
	var all []string
	for _, word := range words {
		if option := upper(word); slices.Contains([]string{"NX", "XX", "GT", "LT"}, option) {
			all = append(all, option)
			continue
		}
		return Refusal("ERR Unsupported option " + word)
	}
	has := func(option string) bool { return slices.Contains(all, option) }
	switch {
	case has("NX") && (has("XX") || has("GT") || has("LT")):
		return "ERR NX and XX, GT or LT options at the same time are not compatible"
	case has("GT") && has("LT"):
		return "ERR GT and LT options at the same time are not compatible"
	}
	return ""
}

// mayExpire reports whether options of EXPIRE allow the new end of a key.
func mayExpire(options []string, was, is int64) bool {
	for _, option := range options {
		switch upper(option) {
		case "NX":
			if was != Forever {
				return false
			}
		case "XX":
			if was == Forever {
				return false
			}
		case "GT":
			if is <= was {
				return false
			}
		case "LT":
			if is >= was {
				return false
			}
		}
	}
	return true
}

// ending returns TTL and its like: the rest of a key's life, or its end.
func ending(unit int64, absolute bool) func(*Server, int64, []string) Reply {
	return func(r *Server, t int64, args []string) Reply {
		now := r.NowMs(t)
		v := r.get(r.keyAt(args[0]), now)
		switch {
		case !v.there:
			return int64(-2)
		case v.expire == Forever:
			return int64(-1)
		}
		if !absolute {
			v.expire -= now
		}
		return (v.expire + unit/2) / unit
	}
}

var stringVerbs = map[string]verb{
	"SET":      {args: 2, writes: true, memory: true, run: cmdSet},
	"SETNX":    {args: 2, most: 2, writes: true, memory: true, run: cmdSetNX},
	"SETEX":    {args: 3, most: 3, writes: true, memory: true, run: setEx("setex", "EX")},
	"PSETEX":   {args: 3, most: 3, writes: true, memory: true, run: setEx("psetex", "PX")},
	"GETSET":   {args: 2, most: 2, writes: true, memory: true, run: onText(cmdGetSet)},
	"GETDEL":   {args: 1, most: 1, writes: true, run: onText(cmdGetDel)},
	"GETEX":    {args: 1, writes: true, run: cmdGetEx},
	"INCR":     {args: 1, most: 1, writes: true, memory: true, run: onText(adding(1))},
	"DECR":     {args: 1, most: 1, writes: true, memory: true, run: onText(adding(-1))},
	"INCRBY":   {args: 2, most: 2, writes: true, memory: true, run: onNumbers(adding(1))},
	"DECRBY":   {args: 2, most: 2, writes: true, memory: true, run: onNumbers(adding(-1))},
	"APPEND":   {args: 2, most: 2, writes: true, memory: true, run: onText(cmdAppend)},
	"STRLEN":   {args: 1, most: 1, run: onText(cmdStrLen)},
	"GETRANGE": {args: 3, most: 3, run: onNumbers(cmdGetRange)},
	"MSET":     {args: 2, writes: true, memory: true, run: cmdMSet},

	"EXPIRE":      {args: 2, writes: true, run: expiring("expire", 1000, false)},
	"PEXPIRE":     {args: 2, writes: true, run: expiring("pexpire", 1, false)},
	"EXPIREAT":    {args: 2, writes: true, run: expiring("expireat", 1000, true)},
	"PEXPIREAT":   {args: 2, writes: true, run: expiring("pexpireat", 1, true)},
	"TTL":         {args: 1, most: 1, run: ending(1000, false)},
	"PTTL":        {args: 1, most: 1, run: ending(1, false)},
	"EXPIRETIME":  {args: 1, most: 1, run: ending(1000, true)},
	"PEXPIRETIME": {args: 1, most: 1, run: ending(1, true)},
}
