package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrMalformed reports a line that neither this package nor encoding/json can read.
var ErrMalformed = errors.New("history: line is no event")

// AppendLine appends e to dst as one line of history.jsonl, with its newline. Fields have a fixed order and zero fields are omitted, so
// equal events give equal bytes.
func AppendLine(dst []byte, e *Event) []byte {
	dst = appendHead(dst, e.T, e.Kind)
	dst = appendText(dst, `,"node":`, e.Node)
	dst = appendText(dst, `,"instance":`, e.Instance)
	dst = appendText(dst, `,"session":`, e.Session)
	dst = appendNumber(dst, `,"fence":`, e.Fence)
	dst = appendNumber(dst, `,"until":`, e.Until)
	dst = appendNumber(dst, `,"n":`, e.N)
	dst = appendText(dst, `,"reason":`, e.Reason)
	return append(dst, '}', '\n')
}

func appendHead(dst []byte, t int64, k Kind) []byte {
	dst = append(dst, `{"t":`...)
	dst = strconv.AppendInt(dst, t, 10)
	dst = append(dst, `,"ev":"`...)
	dst = append(dst, k.String()...)
	return append(dst, '"')
}

func appendNumber(dst []byte, name string, n int64) []byte {
	if n == 0 {
		return dst
	}
	dst = append(dst, name...)
	return strconv.AppendInt(dst, n, 10)
}

func appendText(dst []byte, name, s string) []byte {
	if s == "" {
		return dst
	}
	dst = append(dst, name...)
	return appendQuoted(dst, s)
}

// appendQuoted writes s as a JSON string. encoding/json escapes the rare string that is not plain.
func appendQuoted(dst []byte, s string) []byte {
	if isPlain(s) {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	}
	quoted, err := json.Marshal(s)
	if err != nil { // a string always marshals
		panic(err)
	}
	return append(dst, quoted...)
}

// isPlain reports whether s is printable ASCII without quote and backslash. It checks eight bytes at once: a byte b with a clear high bit
// is below 0x20 exactly if b-0x20 borrows, and equals c exactly if (b^c)-1 borrows.
func isPlain(s string) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for len(s) >= 8 {
		v := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		odd := v | (v - ones*0x20) | ((v ^ ones*'"') - ones) | ((v ^ ones*'\\') - ones)
		if odd&high != 0 {
			return false
		}
		s = s[8:]
	}
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x80 || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// Decoder decodes lines into events. To save memory, it keeps one copy of each distinct string. It is not safe for concurrent use. The
// zero value is ready.
type Decoder struct {
	names map[string]string
}

// internMax and internLen bound the kept strings, because reasons may differ in every line.
const (
	internMax = 1 << 17
	internLen = 256
)

// Decode decodes one line, with or without its newline, into e. After an error (ErrMalformed), e is undefined.
func (d *Decoder) Decode(line []byte, e *Event) error {
	if d.fast(line, e) {
		return nil
	}
	return d.slow(line, e)
}

// fast decodes a line as AppendLine writes it, and returns false for any other.
func (d *Decoder) fast(line []byte, e *Event) bool {
	*e = Event{}
	rest, ok := cut(line, `{"t":`)
	if !ok {
		return false
	}
	if e.T, rest, ok = number(rest); !ok {
		return false
	}
	if rest, ok = cut(rest, `,"ev":`); !ok {
		return false
	}
	word, rest, ok := text(rest)
	if !ok {
		return false
	}
	if e.Kind, ok = kindByName[string(word)]; !ok {
		return false
	}
	rest = d.name(rest, `,"node":`, &e.Node)
	rest = d.name(rest, `,"instance":`, &e.Instance)
	rest = d.name(rest, `,"session":`, &e.Session)
	rest = optional(rest, `,"fence":`, &e.Fence)
	rest = optional(rest, `,"until":`, &e.Until)
	rest = optional(rest, `,"n":`, &e.N)
	rest = d.name(rest, `,"reason":`, &e.Reason)
	return string(rest) == "}\n" || string(rest) == "}"
}

func cut(b []byte, prefix string) ([]byte, bool) {
	if len(b) < len(prefix) || string(b[:len(prefix)]) != prefix {
		return b, false
	}
	return b[len(prefix):], true
}

// number reads at most 18 digits, which cannot overflow. The slow path reads longer numbers.
func number(b []byte) (int64, []byte, bool) {
	i, neg := 0, false
	if len(b) > 0 && b[0] == '-' {
		i, neg = 1, true
	}
	start, n := i, int64(0)
	for i < len(b) && i-start < 19 && b[i] >= '0' && b[i] <= '9' {
		n = n*10 + int64(b[i]-'0')
		i++
	}
	digits := i - start
	if digits == 0 || digits > 18 || (digits > 1 && b[start] == '0') {
		return 0, b, false
	}
	if neg {
		n = -n
	}
	return n, b[i:], true
}

func text(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, b, false
	}
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return b[1:i], b[i+1:], true
		case c == '\\' || c < 0x20 || c >= 0x80:
			return nil, b, false
		}
	}
	return nil, b, false
}

// optional and name return rest unchanged if the field is absent or unusual. An unusual field then fails at the closing brace.
func optional(rest []byte, field string, n *int64) []byte {
	after, ok := cut(rest, field)
	if !ok {
		return rest
	}
	v, after, ok := number(after)
	if !ok {
		return rest
	}
	*n = v
	return after
}

func (d *Decoder) name(rest []byte, field string, s *string) []byte {
	after, ok := cut(rest, field)
	if !ok {
		return rest
	}
	v, after, ok := text(after)
	if !ok {
		return rest
	}
	*s = d.intern(v)
	return after
}

func (d *Decoder) intern(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if d.names == nil {
		d.names = make(map[string]string)
	}
	if len(d.names) < internMax && len(s) <= internLen {
		d.names[s] = s
	}
	return s
}

// line is an event as encoding/json sees it.
type line struct {
	T        *int64 `json:"t"`
	Ev       string `json:"ev"`
	Node     string `json:"node"`
	Instance string `json:"instance"`
	Session  string `json:"session"`
	Fence    int64  `json:"fence"`
	Until    int64  `json:"until"`
	N        int64  `json:"n"`
	Reason   string `json:"reason"`
}

func (d *Decoder) slow(b []byte, e *Event) error {
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if l.T == nil || l.Ev == "" {
		return fmt.Errorf(`%w: it needs "t" and "ev"`, ErrMalformed)
	}
	kind, known := ParseKind(l.Ev)
	if !known && l.Reason == "" {
		l.Reason = l.Ev // a later version's message: kept and shown, but never judged
	}
	*e = Event{
		T: *l.T, Kind: kind, Node: d.intern([]byte(l.Node)), Instance: d.intern([]byte(l.Instance)),
		Session: d.intern([]byte(l.Session)), Fence: l.Fence, Until: l.Until, N: l.N,
		Reason: strings.Clone(l.Reason),
	}
	return nil
}
