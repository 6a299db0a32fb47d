package redis

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
)

// Obey executes a command of a client at true time t.
func (r *Server) Obey(t int64, args []string) Reply {
	r.why, r.dirty = "", false
	switch args[0] {
	case "eval", "EVAL", "evalsha", "EVALSHA":
		return r.script(t, args)
	}
	return r.direct(t, args[0], args[1:])
}

func (r *Server) script(t int64, args []string) Reply {
	keys, err := strconv.Atoi(args[2])
	if err != nil || keys > len(args)-3 {
		return Refusal(textNotInteger)
	}
	if r.deniesOne(args[3 : 3+keys]) {
		return Refusal(textNoKey)
	}
	text := args[1]
	if strings.EqualFold(args[0], "EVALSHA") {
		known, ok := r.scripts[text]
		if !ok {
			return Refusal("NOSCRIPT No matching script. Please use EVAL.")
		}
		text = known
	} else {
		sum := sha1.Sum([]byte(text))
		r.scripts[hex.EncodeToString(sum[:])] = text
	}
	in := r.interpreted()
	in.t = t
	got, err := in.eval(text, args[3:3+keys], args[3+keys:])
	var no Refusal
	if errors.As(err, &no) {
		return no
	}
	return got
}
