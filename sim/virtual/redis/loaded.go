package redis

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"github.com/leasestorm/leasestorm/internal/core"
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

func (r *Server) Forget() {
	r.loaded = 0
	clear(r.scripts)
}

// Knows reports whether the script of an op is loaded, and load loads it.
func (r *Server) Knows(k core.OpKind) bool { return k == core.OpAsk || r.loaded>>k&1 != 0 }

func (r *Server) Load(k core.OpKind) { r.loaded |= 1 << k }
