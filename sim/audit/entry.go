package audit

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// kind is an event of an entry, as far as the audit uses it.
type kind uint8

const (
	other kind = iota
	acquired
	renewed
	renewFailed
	lost
	released
	releaseFailed
	yield
	kept
	acquireFailed
	epoch
	clockStep
	drained
	logDropped
	poll    // begins, of a node that reports its polls
	alive   // the process runs
	trouble // the instance, its host or its Redis had a problem
)

// kinds maps the events of docs/log.md and docs/node-protocol.md.
var kinds = map[string]kind{
	"acquired": acquired, "renewed": renewed, "renewFailed": renewFailed, "lost": lost, "released": released, "releaseFailed": releaseFailed,
	"yield": yield, "kept": kept, "acquireFailed": acquireFailed, "epoch": epoch, "ready": epoch, "clock": clockStep,
	"drained": drained, "stopped": drained, "logDropped": logDropped,
	"epochRejected": trouble, "outside": trouble, "redisSilent": trouble, "redisHeard": trouble, "redisRefuses": trouble,
	"redisAccepts": trouble, "withdrawn": trouble, "stalled": trouble, "blocked": trouble, "unblocked": trouble, "noticesRefused": trouble, "pollStart": poll, "pollEnd": alive, "pollCancelled": alive, "renewStart": alive,
}

func (k kind) ofLease() bool { return k >= acquired && k <= acquireFailed }

// entry is one log entry. Times are ns since 1970 by the clock of its host, or by another clock that all entries share.
type entry struct {
	at       int64
	kind     kind
	step     bool // of clock: Redis' clock stepped, not the instance's
	hasFence bool
	instance string
	lease    string
	reason   string
	owner    string
	epoch    string
	fence    int64
	ttl      int64
	until    int64 // 0: not logged
	wait     int64 // without its sign
	redis    int64 // 0: not logged
	sum      uint64
	from     *source
	seq      uint64
}

// field is a field of an entry.
type field uint8

const (
	none field = iota
	fieldTime
	fieldEvent
	fieldInstance
	fieldLease
	fieldFence
	fieldReason
	fieldOwner
	fieldTTL
	fieldUntil
	fieldRedis
	fieldEpoch
	fieldMono
	fieldWait
)

// fields maps the names of fields: those of the library's log through zap or slog, and those of the node protocol.
var fields = map[string]field{
	"ts": fieldTime, "time": fieldTime, "t": fieldMono, "event": fieldEvent, "instance": fieldInstance, "endpoint": fieldLease,
	"session": fieldLease, "fence": fieldFence, "reason": fieldReason, "owner": fieldOwner, "ttl": fieldTTL, "until": fieldUntil,
	"redis": fieldRedis, "epoch": fieldEpoch, "wait": fieldWait,
}

// Mapping maps other names to those of docs/log.md, as in "instance=host,ts=@timestamp".
func mapping(list string) (map[string]field, error) {
	m := map[string]field{}
	for name, f := range fields {
		m[name] = f
	}
	for pair := range strings.SplitSeq(list, ",") {
		if pair == "" {
			continue
		}
		name, to, ok := strings.Cut(pair, "=")
		f := fields[name]
		if !ok || f == none || to == "" {
			return nil, fmt.Errorf("field %q: give NAME=NAME, the name of docs/log.md first, such as instance=host", pair)
		}
		for old, g := range m {
			if g == f {
				delete(m, old)
			}
		}
		m[to] = f
	}
	return m, nil
}

// scanner parses lines. It interns their strings, which are few.
type scanner struct {
	fields map[string]field
	words  map[string]string
}

func (s *scanner) word(raw []byte) string {
	if w, ok := s.words[string(raw)]; ok {
		return w
	}
	w := string(raw)
	if bytes.IndexByte(raw, '\\') >= 0 {
		if u, err := strconv.Unquote(`"` + w + `"`); err == nil {
			w = u
		}
	}
	if len(s.words) >= wordsMax {
		clear(s.words)
	}
	s.words[string(raw)] = w
	return w
}

const wordsMax = 1 << 16

// scan parses the entry of a line, which must be a flat JSON object, or have nested values that the audit needs not. ok is false if it is
// none, and e.kind is other if it is no entry that the audit needs.
func (s *scanner) scan(line []byte, e *entry) (ok bool) {
	p := parser{text: line}
	if !p.open('{') {
		return false
	}
	timed, mono := false, false
	for first := true; !p.open('}'); first = false {
		if !first && !p.open(',') {
			return false
		}
		key, quoted, ok := p.value()
		if !ok || !quoted || !p.open(':') {
			return false
		}
		raw, quoted, ok := p.value()
		if !ok {
			return false
		}
		f := s.fields[string(key)]
		switch f {
		case none:
		case fieldTime, fieldMono:
			if mono = f == fieldMono; !mono || !timed {
				e.at, timed = clockTime(raw, quoted, mono)
			}
		case fieldUntil:
			e.until, _ = clockTime(raw, quoted, mono)
		case fieldRedis:
			e.redis, _ = clockTime(raw, quoted, mono)
		default:
			s.set(e, f, raw)
		}
	}
	if !timed {
		e.at = 0
	}
	return p.rest()
}

func (s *scanner) set(e *entry, f field, raw []byte) {
	switch f {
	case fieldEvent:
		e.kind = kinds[string(raw)]
	case fieldInstance:
		e.instance = s.word(raw)
	case fieldLease:
		e.lease = s.word(raw)
	case fieldFence:
		e.fence, e.hasFence = whole(raw)
	case fieldReason:
		e.reason = s.word(raw)
		e.step = e.reason == "redis' clock jumped"
	case fieldOwner:
		e.owner = s.word(raw)
	case fieldTTL:
		ms, _ := whole(raw)
		e.ttl = ms * int64(time.Millisecond)
	case fieldWait:
		ms, _ := whole(bytes.TrimPrefix(raw, []byte{'-'}))
		e.wait = ms * int64(time.Millisecond)
	case fieldEpoch:
		e.epoch = s.word(raw)
	}
}

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
// of ns.
func clockTime(raw []byte, quoted, mono bool) (ns int64, ok bool) {
	if quoted {
		for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700", "2006-01-02 15:04:05.999999999Z07:00"} {
			if t, err := time.Parse(layout, string(raw)); err == nil {
				return t.UnixNano(), true
			}
		}
		return 0, false
	}
	head, tail, _ := bytes.Cut(raw, []byte{'.'})
	n, ok := whole(head)
	if !ok || mono {
		return n, ok
	}
	unit := int64(time.Second)
	for limit := int64(1e11); n >= limit && unit > 1; limit *= 1000 {
		unit /= 1000
	}
	ns = n * unit
	for _, c := range tail {
		if c < '0' || c > '9' {
			return 0, false
		}
		unit /= 10
		ns += int64(c-'0') * unit
	}
	return ns, true
}

// parser reads JSON. It is stricter than needed nowhere: what it accepts has the structure of JSON.
type parser struct {
	text []byte
	at   int
}

func (p *parser) space() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t' || p.text[p.at] == '\n' || p.text[p.at] == '\r') {
		p.at++
	}
}

// open skips c, if it is next.
func (p *parser) open(c byte) bool {
	p.space()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) rest() bool {
	p.space()
	return p.at == len(p.text)
}

// value returns the next value: a string without its quotes, and anything else as it is.
func (p *parser) value() (raw []byte, quoted, ok bool) {
	p.space()
	from := p.at
	if p.open('"') {
		raw, ok = p.quoted()
		return raw, true, ok
	}
	for depth := 0; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; c {
		case '{', '[':
			depth++
		case '}', ']', ',':
			if depth == 0 {
				return bytes.TrimSpace(p.text[from:p.at]), false, p.at > from
			}
			if c != ',' {
				depth--
			}
		case '"':
			p.at++
			if _, ok := p.quoted(); !ok || depth == 0 {
				return nil, false, false
			}
			p.at--
		}
	}
	return nil, false, false
}

func (p *parser) quoted() ([]byte, bool) {
	from := p.at
	for p.at < len(p.text) {
		n := bytes.IndexByte(p.text[p.at:], '"')
		if n < 0 {
			return nil, false
		}
		p.at += n + 1
		escapes := 0
		for k := p.at - 2; k >= from && p.text[k] == '\\'; k-- {
			escapes++
		}
		if escapes%2 == 0 {
			return p.text[from : p.at-1], true
		}
	}
	return nil, false
}
