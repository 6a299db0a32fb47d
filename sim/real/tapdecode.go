package real

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

type keyKind uint8

const (
	keyOther keyKind = iota
	keyLease
	keyFence
	keyNode
	keyIdem   // an idempotency key, whose value is a session
	keyRecord // the record of a session, a hash
	keyBus    // the stream of events for workers
	keyEpoch  // the epoch of the data
	keyKinds
)

// commands are those with a known effect on keys. Few are needed: Redis replicates only effective commands, with absolute expiries, and
// deletes expired keys by DEL. Any other command makes each lease and fence that it names unknown (unread).
var commands = map[string]func(t *tap, verb string, args [][]byte){
	"SET": (*tap).assign, "SETEX": (*tap).assignFor, "PSETEX": (*tap).assignFor,
	"SETNX": (*tap).assignAll, "MSET": (*tap).assignAll, "MSETNX": (*tap).assignAll,
	"PEXPIREAT": (*tap).extend, "EXPIREAT": (*tap).extend, "PEXPIRE": (*tap).extend, "EXPIRE": (*tap).extend, "PERSIST": (*tap).extend,
	"INCR": (*tap).increment, "INCRBY": (*tap).increment, "DECR": (*tap).increment, "DECRBY": (*tap).increment,
	"DEL": (*tap).removeAll, "UNLINK": (*tap).removeAll, "GETDEL": (*tap).removeAll,
	"HSET": (*tap).fields, "HMSET": (*tap).fields, "XADD": (*tap).entry,
	"PUBLISH": (*tap).nothing, "SPUBLISH": (*tap).nothing,

	// Only the first argument of these is a key. The others are values, which may be names of leases.
	"APPEND": (*tap).first, "SADD": (*tap).first, "SREM": (*tap).first, "ZADD": (*tap).first, "ZREM": (*tap).first,
	"HSETNX": (*tap).first, "HDEL": (*tap).first, "HINCRBY": (*tap).first, "ZINCRBY": (*tap).first,
	"LPUSH": (*tap).first, "RPUSH": (*tap).first, "LREM": (*tap).first, "LSET": (*tap).first,
}

func (t *tap) command(words [][]byte) {
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
	if verb == "FLUSHALL" || verb == "FLUSHDB" && t.db == t.redis.url.DB {
		clear(t.held)
		clear(t.fences)
		t.show(keyOther, 0, history.Event{Kind: history.RedisFlushed})
		return
	}
	if t.db != t.redis.url.DB || len(args) == 0 {
		return
	}
	if known := commands[verb]; known != nil {
		known(t, verb, args)
		return
	}
	t.unread(args...)
}

// show queues an event until the next mark, which dates it. fresh is the command's expiry, if that counts from its execution; else 0.
func (t *tap) show(kind keyKind, fresh int64, e history.Event) {
	t.stamps.add(shown{event: e, kind: kind, fresh: fresh, read: span{t.reader.empty, t.clock.Now()}})
}

func (t *tap) placed(mark int64) {
	for _, e := range t.stamps.mark(mark) {
		t.add(e)
	}
}

func (t *tap) nothing(string, [][]byte) {}

func (t *tap) first(_ string, args [][]byte) { t.unread(args[0]) }

// unread handles a command of unknown effect: a lease and its expiry, or a fence, are unknown until the key is set or deleted.
func (t *tap) unread(keys ...[]byte) {
	for _, key := range keys {
		switch kind, id := t.split(key); kind {
		case keyLease:
			t.held[id] = held{unread: true}
			t.show(kind, 0, history.Event{Kind: history.RedisGranted, Session: id})
		case keyFence:
			delete(t.fences, id)
			t.gap = true
		case keyNode, keyIdem, keyRecord, keyBus, keyEpoch, keyOther, keyKinds:
		}
	}
}

func (t *tap) fields(_ string, args [][]byte) {
	if kind, id := t.system.split(args[0]); kind == keyRecord {
		t.written(id, args[1:])
		return
	}
	t.unread(args[0])
}

func (t *tap) entry(_ string, args [][]byte) {
	if kind, _ := t.system.split(args[0]); kind == keyBus {
		t.published(args)
		return
	}
	t.unread(args[0])
}

func (t *tap) assignAll(_ string, args [][]byte) {
	for i := 0; i+1 < len(args); i += 2 {
		t.set(args[i], string(args[i+1]), 0)
	}
}

// assignFor decodes SETEX and PSETEX, which current servers never replicate.
func (t *tap) assignFor(verb string, args [][]byte) {
	if len(args) == 3 {
		t.set(args[0], string(args[2]), t.relative(verb == "SETEX", string(args[1])))
	}
}

// assign decodes SET. KEEPTTL keeps the old expiry, which does not date the command.
func (t *tap) assign(_ string, args [][]byte) {
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
func (t *tap) expiry(options [][]byte) int64 {
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

func (t *tap) relative(seconds bool, arg string) int64 {
	return t.clock.Now() + nanoseconds(seconds, arg)
}

func (t *tap) absolute(seconds bool, arg string) int64 {
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

func (t *tap) split(key []byte) (keyKind, string) {
	if string(key) == t.system.epochKey {
		return keyEpoch, ""
	}
	return t.system.split(key)
}

func (t *tap) set(key []byte, value string, until int64) { t.record(key, value, until, until) }

// record records a key set with the expiry until. fresh is that expiry if it counts from the execution, else 0.
func (t *tap) record(key []byte, value string, until, fresh int64) {
	kind, id := t.split(key)
	e := history.Event{Until: until}
	switch kind {
	case keyLease:
		e.Kind, e.Session, e.Instance = history.RedisGranted, id, value
		t.held[id] = held{holder: value, until: until}
	case keyFence:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return
		}
		t.fences[id] = n
		e.Kind, e.Session, e.Fence, e.Until = history.RedisFence, id, n, 0
	case keyNode:
		e.Kind, e.Instance = history.RedisBeat, id
	case keyIdem:
		e.Kind, e.Session, e.Reason = history.RedisKeyed, value, id
		t.held[id] = held{holder: value, until: until}
	case keyEpoch:
		e.Kind, e.Reason = history.RedisEpoch, value
	case keyRecord, keyBus, keyOther, keyKinds:
		return
	}
	t.show(kind, fresh, e)
}

func (t *tap) extend(verb string, args [][]byte) {
	kind, id := t.system.split(args[0])
	var until int64
	if len(args) > 1 {
		seconds := !strings.HasPrefix(verb, "P")
		if until = t.relative(seconds, string(args[1])); strings.HasSuffix(verb, "AT") {
			until = t.absolute(seconds, string(args[1]))
		}
	}
	e := history.Event{Until: until}
	switch kind {
	case keyLease:
		e.Kind, e.Session, e.Instance = history.RedisExtended, id, t.prolong(id, until)
	case keyNode:
		e.Kind, e.Instance = history.RedisBeat, id
	case keyIdem:
		e.Kind, e.Session, e.Reason = history.RedisKeyed, t.prolong(id, until), id
	case keyFence, keyRecord, keyBus, keyEpoch, keyOther, keyKinds:
		return
	}
	t.show(kind, until, e)
}

func (t *tap) prolong(id string, until int64) string {
	h := t.held[id]
	h.until = until
	t.held[id] = h
	return h.holder
}

// increment decodes INCR and DECR, with which foreign nodes count fences. It records nothing if the value is unknown after a gap.
func (t *tap) increment(verb string, args [][]byte) {
	kind, id := t.system.split(args[0])
	if kind != keyFence {
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

func (t *tap) removeAll(_ string, keys [][]byte) {
	for _, key := range keys {
		t.remove(key)
	}
}

func (t *tap) remove(key []byte) {
	kind, id := t.system.split(key)
	var h held
	if kind == keyLease || kind == keyIdem {
		h = t.held[id]
		delete(t.held, id)
	}
	var e history.Event
	switch kind {
	case keyLease:
		e.Kind, e.Session, e.Instance = history.RedisDeleted, id, h.holder
	case keyNode:
		e.Kind, e.Instance = history.RedisBeatGone, id
	case keyFence:
		delete(t.fences, id)
		return
	case keyIdem:
		e.Kind, e.Reason = history.RedisUnkeyed, id
	case keyRecord:
		e.Kind, e.Session, e.Reason = history.RedisState, id, "gone"
	case keyBus, keyEpoch, keyOther, keyKinds:
		return
	}
	t.show(kind, 0, e)
}
