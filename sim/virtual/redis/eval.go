package redis

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"maps"
	"strconv"
	"strings"
)

func init() {
	maps.Copy(verbs, scriptVerbs)
}

// scriptVerbs are commands that no script may call.
var scriptVerbs = map[string]verb{
	"EVAL":       {args: 2, outer: true, run: evaluates(false, false)},
	"EVALSHA":    {args: 2, outer: true, run: evaluates(true, false)},
	"EVAL_RO":    {args: 2, outer: true, run: evaluates(false, true)},
	"EVALSHA_RO": {args: 2, outer: true, run: evaluates(true, true)},
	"SCRIPT":     {args: 1, outer: true, run: cmdScript},
}

// Obey executes a command of a client at true time t.
func (r *Server) Obey(t int64, args []string) Reply {
	r.why, r.dirty = "", false
	name := upper(args[0])
	v, known := verbs[name]
	switch n := len(args) - 1; {
	case !known:
		return unknown(args)
	case n < v.args || v.most > 0 && n > v.most:
		return wrongNumber(name)
	case v.outer:
		return v.run(r, t, args[1:])
	}
	return r.direct(t, name, args[1:])
}

// evaluates returns EVAL and its like. Its arguments are the script or its sum, the number of keys, the keys and the rest.
func evaluates(bySum, reads bool) func(*Server, int64, []string) Reply {
	return func(r *Server, t int64, args []string) Reply {
		n, err := strconv.Atoi(args[1])
		switch {
		case err != nil:
			return Refusal(textNotInteger)
		case n > len(args)-2:
			return Refusal("ERR Number of keys can't be greater than number of args")
		case n < 0:
			return Refusal("ERR Number of keys can't be negative")
		}
		keys, rest := args[2:2+n], args[2+n:]
		if r.deniesOne(keys) {
			return Refusal(textNoKey)
		}
		sum, text := strings.ToLower(args[0]), args[0]
		if bySum {
			known, ok := r.scripts[sum]
			if !ok {
				return Refusal("NOSCRIPT No matching script. Please use EVAL.")
			}
			text = known
		} else {
			sum = r.load(text)
		}
		return r.evaluate(t, sum, text, keys, rest, reads)
	}
}

func (r *Server) evaluate(t int64, sum, text string, keys, args []string, reads bool) Reply {
	in := r.interpreted()
	in.t, in.reads, in.failed = t, reads, ""
	got, err := in.eval(text, keys, args)
	in.reads = false
	var no Refusal
	switch {
	case !errors.As(err, &no):
		return got
	case in.failed != "" && r.caller != nil:
		no += Refusal(" script: " + sum + ", on " + strings.TrimRight(in.failed, ": ") + ".")
	}
	return no
}

// load remembers a script and returns its sum.
func (r *Server) load(text string) string {
	sum := sumOf(text)
	r.scripts[sum] = text
	return sum
}

func sumOf(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

func cmdScript(r *Server, _ int64, args []string) Reply {
	switch word, rest := upper(args[0]), args[1:]; {
	case word == "LOAD" && len(rest) == 1:
		if _, err := r.interpreted().compiled(rest[0]); err != nil {
			return err
		}
		return r.load(rest[0])
	case word == "EXISTS" && len(rest) > 0:
		out := make([]Reply, len(rest))
		for i, sum := range rest {
			_, known := r.scripts[strings.ToLower(sum)]
			out[i] = int64(oneOf(known))
		}
		return out
	case word == "FLUSH" && len(rest) < 2:
		r.Forget()
		return status("OK")
	}
	return unknownSubcommand("SCRIPT", args[0])
}

func oneOf(is bool) int {
	if is {
		return 1
	}
	return 0
}
