package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Kind is an event of an entry, as far as the audit uses it.
type Kind uint8

// Kinds of entries.
const (
	Other Kind = iota
	Acquired
	Renewed
	RenewFailed
	Lost
	Released
	ReleaseFailed
	Yield
	AcquireFailed
	Epoch
	ClockStep
	Drained
	Dropped // entries were dropped
	Poll    // begins, of a node that reports its polls
	Alive   // the process runs
	Trouble // the instance or its Redis had a problem
	Stalled // the process, or its host, stood still
)

// kinds maps the events of docs/log.md and docs/node-protocol.md.
var kinds = map[string]Kind{
	"acquired": Acquired, "renewed": Renewed, "renewFailed": RenewFailed, "lost": Lost, "released": Released, "releaseFailed": ReleaseFailed,
	"yield": Yield, "acquireFailed": AcquireFailed, "epoch": Epoch, "ready": Epoch, "clock": ClockStep,
	"drained": Drained, "stopped": Drained, "logDropped": Dropped,
	"epochRejected": Trouble, "outside": Trouble, "redisSilent": Trouble, "redisHeard": Trouble, "redisRefuses": Trouble,
	"redisAccepts": Trouble, "withdrawn": Trouble, "noticesRefused": Trouble, "stalled": Stalled, "blocked": Stalled, "unblocked": Stalled,
	"pollStart": Poll, "pollEnd": Alive, "pollCancelled": Alive, "renewStart": Alive, "kept": Alive,
}

// Entry is one log entry. Times are ns since 1970 by the clock of its host, or by another clock that all entries share.
type Entry struct {
	At       int64
	Kind     Kind
	Instance string
	Lease    string
	Reason   string
	Owner    string
	Epoch    string
	Fence    int64
	HasFence bool
	TTL      int64
	Until    int64 // 0: not logged
	Wait     int64 // without its sign
	Redis    int64 // 0: not logged
	sum      uint64
	seq      uint64
}

// Names maps a field of docs/log.md to the names that it may have.
type Names map[string][]string

// fields are the names of the library's log through zap or slog, and those of the node protocol. The time "t" is of a monotonic clock.
var fields = Names{
	"ts": {"ts", "time"}, "t": {"t"}, "event": {"event"}, "instance": {"instance"}, "endpoint": {"endpoint", "session"}, "fence": {"fence"},
	"reason": {"reason"}, "owner": {"owner"}, "ttl": {"ttl"}, "until": {"until"}, "redis": {"redis"}, "epoch": {"epoch"}, "wait": {"wait"},
}

// Rename returns the names of fields after a list of other names, as in "instance=host,ts=@timestamp".
func Rename(list string) (Names, error) {
	names := maps.Clone(fields)
	for pair := range strings.SplitSeq(list, ",") {
		if pair == "" {
			continue
		}
		name, to, _ := strings.Cut(pair, "=")
		known := false
		for field, all := range fields {
			if slices.Contains(all, name) {
				names[field], known = []string{to}, true
			}
		}
		if !known || to == "" {
			return nil, fmt.Errorf("field %q: give NAME=NAME, the name of docs/log.md first, such as instance=host", pair)
		}
	}
	return names, nil
}

// line is a parsed line.
type line struct {
	object
	names Names
	seen  map[string]string // texts that entries share
}

// parse reads an entry from a line. It returns false if the line is no JSON object. e.Kind is Other if it is no entry that the audit needs.
func (l *line) parse(text []byte, e *Entry) bool {
	if !l.object.parse(text) {
		return false
	}
	if e.Kind = kinds[string(unquoted(l.raw("event")))]; e.Kind == Other {
		return true
	}
	e.Instance, e.Lease, e.Reason = l.text("instance"), l.text("endpoint"), l.text("reason")
	e.Owner, e.Epoch = l.text("owner"), l.text("epoch")
	e.Fence, e.HasFence = whole(unquoted(l.raw("fence")))
	e.TTL, e.Wait = l.millis("ttl"), l.millis("wait")
	mono := l.raw("ts") == nil
	if mono {
		e.At = clockTime(l.raw("t"), true)
	} else {
		e.At = clockTime(l.raw("ts"), false)
	}
	e.Until, e.Redis = clockTime(l.raw("until"), mono), clockTime(l.raw("redis"), mono)
	return true
}

func (l *line) raw(field string) []byte {
	for _, name := range l.names[field] {
		if raw := l.get(name); raw != nil {
			return raw
		}
	}
	return nil
}

func (l *line) text(field string) (s string) {
	raw := l.raw(field)
	if bytes.IndexByte(raw, '\\') >= 0 && json.Unmarshal(raw, &s) == nil {
		return s
	}
	raw = unquoted(raw)
	s, ok := l.seen[string(raw)]
	if !ok {
		if len(l.seen) == seenMax {
			clear(l.seen)
		}
		s = string(raw)
		l.seen[s] = s
	}
	return s
}

const seenMax = 20_000

func (l *line) millis(field string) int64 {
	ms, _ := whole(bytes.TrimPrefix(unquoted(l.raw(field)), []byte{'-'}))
	return ms * int64(time.Millisecond)
}

func unquoted(raw []byte) []byte { return bytes.Trim(raw, `"`) }

func whole(raw []byte) (n int64, ok bool) {
	for _, c := range raw {
		if c < '0' || c > '9' || n > 1<<62/10 {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, len(raw) > 0
}

// clockTime parses a time: RFC 3339, ISO 8601 as zap writes it, or a number of s, ms, µs or ns, which its size tells; of a monotonic clock,
// of ns. It returns 0 for none.
func clockTime(raw []byte, mono bool) int64 {
	if text := unquoted(raw); len(text) < len(raw) {
		for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700", "2006-01-02 15:04:05.999999999Z07:00"} {
			if t, err := time.Parse(layout, string(text)); err == nil {
				return t.UnixNano()
			}
		}
		return 0
	}
	head, tail, _ := bytes.Cut(raw, []byte{'.'})
	n, ok := whole(head)
	if !ok || mono {
		return n
	}
	unit := int64(time.Second)
	for limit := int64(1e11); n >= limit && unit > 1; limit *= 1000 {
		unit /= 1000
	}
	ns := n * unit
	for _, c := range tail {
		if c < '0' || c > '9' {
			return 0
		}
		unit /= 10
		ns += int64(c-'0') * unit
	}
	return ns
}
