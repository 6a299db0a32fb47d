package stream

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// commands are those with a known effect on keys. Few are needed: Redis replicates only effective commands, with absolute expiries, and
// deletes expired keys by DEL. Any other command makes each lease and fence that it names unknown (unread).
var commands = map[string]func(t *Stream, verb string, args [][]byte){
	"SET": (*Stream).assign, "SETEX": (*Stream).assignFor, "PSETEX": (*Stream).assignFor,
	"SETNX": (*Stream).assignAll, "MSET": (*Stream).assignAll, "MSETNX": (*Stream).assignAll,
	"PEXPIREAT": (*Stream).extend, "EXPIREAT": (*Stream).extend, "PEXPIRE": (*Stream).extend, "EXPIRE": (*Stream).extend,
	"INCR": (*Stream).increment, "INCRBY": (*Stream).increment, "DECR": (*Stream).increment, "DECRBY": (*Stream).increment,
	"DEL": (*Stream).removeAll, "UNLINK": (*Stream).removeAll, "GETDEL": (*Stream).removeAll, "PERSIST": (*Stream).extend,
	"HSET": (*Stream).fields, "HMSET": (*Stream).fields, "XADD": (*Stream).entry,
	"PUBLISH": (*Stream).nothing, "SPUBLISH": (*Stream).nothing,

	// Only the first argument of these is a key. The others are values, which may be names of leases.
	"APPEND": (*Stream).first, "SADD": (*Stream).first, "SREM": (*Stream).first, "ZADD": (*Stream).first, "ZREM": (*Stream).first,
	"HSETNX": (*Stream).first, "HDEL": (*Stream).first, "HINCRBY": (*Stream).first, "ZINCRBY": (*Stream).first,
	"LPUSH": (*Stream).first, "RPUSH": (*Stream).first, "LREM": (*Stream).first, "LSET": (*Stream).first,
}

func (t *Stream) command(words [][]byte) {
	verb := strings.ToUpper(string(words[0]))
	args := words[1:]
	switch {
	case verb == "SELECT" && len(args) == 1:
		t.db, _ = strconv.Atoi(string(args[0]))
		return
	case verb == "MULTI", verb == "EXEC":
		t.stamps.transaction(verb == "MULTI")
		return
	}
	if verb == "FLUSHALL" || verb == "FLUSHDB" && t.db == t.at.Admin.DB {
		clear(t.held)
		clear(t.fences)
		t.show(KeyOther, 0, history.Event{Kind: history.RedisFlushed})
		return
	}
	if t.db != t.at.Admin.DB || len(args) == 0 {
		return
	}
	if known := commands[verb]; known != nil {
		known(t, verb, args)
		return
	}
	t.unread(args...)
}

// show queues an event until the next mark, which dates it. fresh is the command's expiry if the expiry counts from the command's
// execution; otherwise 0.
func (t *Stream) show(kind Kind, fresh int64, e history.Event) {
	t.stamps.add(shown{event: e, kind: kind, fresh: fresh, read: span{t.reader.empty, t.clock.Now()}})
}

func (t *Stream) placed(mark int64) {
	for _, e := range t.stamps.mark(mark) {
		t.add(e)
	}
}

func (t *Stream) nothing(string, [][]byte) {}

func (t *Stream) first(_ string, args [][]byte) { t.unread(args[0]) }

// unread handles a command of unknown effect: a lease and its expiry, or a fence, are unknown until the key is set or deleted.
func (t *Stream) unread(keys ...[]byte) {
	for _, key := range keys {
		switch kind, id := t.split(key); kind {
		case KeyLease:
			t.held[id] = held{unread: true}
			t.show(kind, 0, history.Event{Kind: history.RedisGranted, Session: id})
		case KeyFence:
			delete(t.fences, id)
			t.gap = true
		case KeyNode, KeyIdem, KeyRecord, KeyBus, keyEpoch, KeyOther, keyKinds:
		}
	}
}

func (t *Stream) fields(_ string, args [][]byte) {
	if kind, id := t.keys.Split(args[0]); kind == KeyRecord {
		t.written(id, args[1:])
		return
	}
	t.unread(args[0])
}

func (t *Stream) entry(_ string, args [][]byte) {
	if kind, _ := t.keys.Split(args[0]); kind == KeyBus {
		t.published(args)
		return
	}
	t.unread(args[0])
}

func (t *Stream) assignAll(_ string, args [][]byte) {
	for i := 0; i+1 < len(args); i += 2 {
		t.set(args[i], string(args[i+1]), 0)
	}
}

// assignFor decodes SETEX and PSETEX, which current servers never replicate.
func (t *Stream) assignFor(verb string, args [][]byte) {
	if len(args) == 3 {
		t.set(args[0], string(args[2]), t.relative(verb == "SETEX", string(args[1])))
	}
}

// assign decodes SET. KEEPTTL keeps the old expiry, which does not date the command.
func (t *Stream) assign(_ string, args [][]byte) {
	if len(args) < 2 {
		return
	}
	key, value, options := args[0], string(args[1]), args[2:]
	if slices.ContainsFunc(options, func(o []byte) bool { return strings.EqualFold(string(o), "KEEPTTL") }) {
		_, id := t.split(key)
		if before := t.held[id]; before.unread {
			t.unread(key)
		} else {
			t.record(key, value, before.until, 0)
		}
		return
	}
	t.set(key, value, t.expiry(options))
}

// expiry returns the expiry in the options of SET, on the run's clock; 0: none.
func (t *Stream) expiry(options [][]byte) int64 {
	for i := 0; i+1 < len(options); i++ {
		switch option := strings.ToUpper(string(options[i])); option {
		case "PXAT", "EXAT":
			return t.absolute(option == "EXAT", string(options[i+1]))
		case "PX", "EX":
			return t.relative(option == "EX", string(options[i+1]))
		}
	}
	return 0
}

func (t *Stream) relative(seconds bool, arg string) int64 {
	return t.clock.Now() + nanoseconds(seconds, arg)
}

func (t *Stream) absolute(seconds bool, arg string) int64 {
	return t.clock.FromWall(nanoseconds(seconds, arg), t.skew)
}

// farthest is 146 years in ns: subtracting a wall clock from it does not overflow.
const farthest = int64(1) << 62

// nanoseconds parses a time of Redis, in seconds or milliseconds, and caps it at farthest.
func nanoseconds(seconds bool, arg string) int64 {
	n, _ := strconv.ParseInt(arg, 10, 64) // out of range, n is the end of the range
	unit := int64(time.Millisecond)
	if seconds {
		unit = int64(time.Second)
	}
	return min(max(n, -farthest/unit), farthest/unit) * unit
}

func (t *Stream) split(key []byte) (Kind, string) {
	if string(key) == t.keys.Epoch {
		return keyEpoch, ""
	}
	return t.keys.Split(key)
}

func (t *Stream) set(key []byte, value string, until int64) { t.record(key, value, until, until) }

// record records a key set with the expiry until. fresh is that expiry if it counts from the execution, else 0.
func (t *Stream) record(key []byte, value string, until, fresh int64) {
	kind, id := t.split(key)
	e := history.Event{Until: until}
	switch kind {
	case KeyLease:
		e.Kind, e.Session, e.Instance = history.RedisGranted, id, value
		t.held[id] = held{holder: value, until: until}
	case KeyFence:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return
		}
		t.fences[id] = n
		e.Kind, e.Session, e.Fence, e.Until = history.RedisFence, id, n, 0
	case KeyNode:
		e.Kind, e.Instance = history.RedisBeat, id
	case KeyIdem:
		e.Kind, e.Session, e.Reason = history.RedisKeyed, value, id
		t.held[id] = held{holder: value, until: until}
	case keyEpoch:
		e.Kind, e.Reason = history.RedisEpoch, value
	case KeyRecord, KeyBus, KeyOther, keyKinds:
		return
	}
	t.show(kind, fresh, e)
}

func (t *Stream) extend(verb string, args [][]byte) {
	kind, id := t.keys.Split(args[0])
	var until int64
	if len(args) > 1 {
		seconds := !strings.HasPrefix(verb, "P")
		if until = t.relative(seconds, string(args[1])); strings.HasSuffix(verb, "AT") {
			until = t.absolute(seconds, string(args[1]))
		}
	}
	e := history.Event{Until: until}
	switch kind {
	case KeyLease:
		e.Kind, e.Session, e.Instance = history.RedisExtended, id, t.prolong(id, until)
	case KeyNode:
		e.Kind, e.Instance = history.RedisBeat, id
	case KeyIdem:
		e.Kind, e.Session, e.Reason = history.RedisKeyed, t.prolong(id, until), id
	case KeyFence, KeyRecord, KeyBus, keyEpoch, KeyOther, keyKinds:
		return
	}
	t.show(kind, until, e)
}

func (t *Stream) prolong(id string, until int64) string {
	h := t.held[id]
	h.until = until
	t.held[id] = h
	return h.holder
}

// increment decodes INCR and DECR, with which foreign nodes count fences. If the value is unknown after a gap in the stream,
// increment records nothing.
func (t *Stream) increment(verb string, args [][]byte) {
	kind, id := t.keys.Split(args[0])
	if kind != KeyFence {
		t.unread(args[0])
		return
	}
	by := int64(1)
	if len(args) > 1 {
		by, _ = strconv.ParseInt(string(args[1]), 10, 64)
	}
	if strings.HasPrefix(verb, "DECR") {
		by = -by
	}
	last, known := t.fences[id]
	if !known && t.gap {
		return
	}
	t.fences[id] = last + by
	t.show(kind, 0, history.Event{Kind: history.RedisFence, Session: id, Fence: last + by})
}

func (t *Stream) removeAll(_ string, keys [][]byte) {
	for _, key := range keys {
		t.remove(key)
	}
}

func (t *Stream) remove(key []byte) {
	kind, id := t.keys.Split(key)
	var h held
	if kind == KeyLease || kind == KeyIdem {
		h = t.held[id]
		delete(t.held, id)
	}
	var e history.Event
	switch kind {
	case KeyLease:
		e.Kind, e.Session, e.Instance = history.RedisDeleted, id, h.holder
	case KeyNode:
		e.Kind, e.Instance = history.RedisBeatGone, id
	case KeyFence:
		delete(t.fences, id)
		return
	case KeyIdem:
		e.Kind, e.Reason = history.RedisUnkeyed, id
	case KeyRecord:
		e.Kind, e.Session, e.Reason = history.RedisState, id, "gone"
	case KeyBus, keyEpoch, KeyOther, keyKinds:
		return
	}
	t.show(kind, 0, e)
}

// written records a change of a session's record. One HSET writes its state and its reason.
func (t *Stream) written(id string, fields [][]byte) {
	var state, reason, fence string
	for i := 0; i+1 < len(fields); i += 2 {
		switch string(fields[i]) {
		case "state":
			state = string(fields[i+1])
		case "reason":
			reason = string(fields[i+1])
		case "fence":
			fence = string(fields[i+1])
		}
	}
	if state == "" {
		return
	}
	n, _ := strconv.ParseInt(fence, 10, 64)
	t.show(KeyRecord, 0, history.Event{
		Kind: history.RedisState, Session: id, Fence: n, Reason: strings.TrimSpace(state + " " + reason),
	})
}

// published records an entry of the bus: XADD key [options] ID field value …
func (t *Stream) published(args [][]byte) {
	i := 1
	for i < len(args) && !bytes.ContainsRune(args[i], '-') { // an ID has a dash, options have none
		i++
	}
	var session, kind string
	for i++; i+1 < len(args); i += 2 {
		switch string(args[i]) {
		case "session":
			session = string(args[i+1])
		case "type":
			kind = string(args[i+1])
		}
	}
	if session != "" {
		t.show(KeyBus, 0, history.Event{Kind: history.RedisIntent, Session: session, Reason: kind})
	}
}
