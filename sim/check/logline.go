package check

import (
	"bytes"
	"encoding/json"
	"unicode"
)

// decode reads an entry by encoding/json, whoever wrote it.
func decode(line []byte, e *LogEntry) bool {
	var j struct {
		Event    string          `json:"event"`
		Instance string          `json:"instance"`
		Endpoint string          `json:"endpoint"`
		Fence    *int64          `json:"fence"`
		Reason   string          `json:"reason"`
		TS       json.RawMessage `json:"ts"`
	}
	if json.Unmarshal(line, &j) != nil {
		return false
	}
	*e = LogEntry{
		Event: j.Event, Instance: j.Instance, Endpoint: j.Endpoint, Reason: j.Reason, HasFence: j.Fence != nil,
		HasTime: len(j.TS) > 0,
	}
	if j.Fence != nil {
		e.Fence = *j.Fence
	}
	return true
}

// flat reads an entry as nearly all are written, plain strings and whole numbers side by side, and gives up on anything else:
// decode decides. Reading the entry of each renewal by encoding/json took longer than judging the run.
func (l *Logs) flat(line []byte, e *LogEntry) bool {
	rest := bytes.TrimSpace(line)
	if len(rest) == 0 || rest[0] != '{' {
		return false
	}
	*e = LogEntry{}
	for more := true; more; {
		key, value, ok := plain(rest[1:])
		if !ok || len(value) == 0 || value[0] != ':' {
			return false
		}
		if rest, ok = l.field(e, key, value[1:]); !ok || len(rest) == 0 {
			return false
		}
		more = rest[0] == ','
	}
	return string(rest) == "}"
}

// field takes the value of a field over and returns what stands behind it.
func (l *Logs) field(e *LogEntry, key, value []byte) (rest []byte, ok bool) {
	text, rest, quoted := plain(value)
	number := int64(0)
	if !quoted {
		if number, rest, ok = whole(value); !ok {
			return nil, false
		}
	}
	switch string(key) {
	case "event":
		e.Event = l.intern(text)
	case "instance":
		e.Instance = l.intern(text)
	case "endpoint":
		e.Endpoint = l.intern(text)
	case "reason":
		e.Reason = string(text)
	case "fence":
		e.Fence, e.HasFence = number, true
		return rest, !quoted
	case "ts":
		e.HasTime = true
		return rest, true
	default: // encoding/json takes "Event" for "event"
		return rest, !bytes.ContainsFunc(key, unicode.IsUpper)
	}
	return rest, quoted
}

// plain reads a string of printable ASCII without escapes, and returns what stands behind it.
func plain(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return b[1:i], b[i+1:], true
		case c == '\\' || c < 0x20 || c >= 0x80:
			return nil, nil, false
		}
	}
	return nil, nil, false
}

// whole reads at most 18 digits, which cannot overflow.
func whole(b []byte) (n int64, rest []byte, ok bool) {
	i := 0
	for i < len(b) && b[i] >= '0' && b[i] <= '9' && i < 19 {
		n = n*10 + int64(b[i]-'0')
		i++
	}
	return n, b[i:], i > 0 && i < 19 && (i == 1 || b[0] != '0')
}

// namesMax and nameLen bound the strings that are kept, should a log be full of different ones.
const (
	namesMax = 1 << 17
	nameLen  = 256
)

// intern returns the one copy of a string that comes again and again.
func (l *Logs) intern(b []byte) string {
	if s, ok := l.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(l.names) < namesMax && len(s) <= nameLen {
		l.names[s] = s
	}
	return s
}
