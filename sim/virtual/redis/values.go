package redis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Reply is nil, int64, string, status, []reply or a refusal.
type Reply any

type status string

// Refusal is an error that the server replies.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Plain returns a reply without its types.
func Plain(v Reply) any {
	switch v := v.(type) {
	case status:
		return string(v)
	case []Reply:
		all := make([]any, len(v))
		for i := range v {
			all[i] = Plain(v[i])
		}
		return all
	}
	return v
}

const (
	textWrongType  = "WRONGTYPE Operation against a key holding the wrong kind of value"
	textNotInteger = "ERR value is not an integer or out of range"
	textSyntax     = "ERR syntax error"
)

func wrongNumber(name string) Refusal {
	return Refusal("ERR wrong number of arguments for '" + strings.ToLower(name) + "' command")
}

// unknown is Redis' reply to a command that it does not know.
func unknown(args []string) Refusal {
	var b strings.Builder
	for _, arg := range args[1:] {
		if b.Len() >= 128 {
			break
		}
		fmt.Fprintf(&b, "'%s' ", arg[:min(len(arg), 128-b.Len())])
	}
	return Refusal(fmt.Sprintf("ERR unknown command '%s', with args beginning with: %s", args[0][:min(len(args[0]), 128)], b.String()))
}

func unknownSubcommand(command, word string) Refusal {
	return Refusal(fmt.Sprintf("ERR unknown subcommand '%s'. Try %s HELP.", word[:min(len(word), 128)], command))
}

func upper(word string) string { return strings.ToUpper(word) }

func texts(words []string) []Reply {
	out := make([]Reply, len(words))
	for i, word := range words {
		out[i] = word
	}
	return out
}

// Forever is the expiry of a key without one.
const Forever = int64(1) << 62

// object is a key of the intent store or a mutant's scripts. kind selects the field. Unlike in Redis, hashes and sets are ordered.
type object struct {
	kind   objectKind
	text   string
	hash   []string // field, value, …; in order of first use
	set    []string // ascending
	zset   []scored // ascending
	stream *stream
	expire int64 // ms, or forever
}

type objectKind uint8

const (
	objString objectKind = iota
	objHash
	objSet
	objZSet
	objStream
)

type scored struct {
	member string
	score  float64
}

func (a scored) before(b scored) int {
	return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.member, b.member))
}

func (o *object) clone() *object {
	c := *o
	c.hash, c.set, c.zset = slices.Clone(o.hash), slices.Clone(o.set), slices.Clone(o.zset)
	if o.stream != nil {
		c.stream = o.stream.clone()
	}
	return &c
}

func cloneObjects(all map[string]*object) map[string]*object {
	c := make(map[string]*object, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c[name] = all[name].clone()
	}
	return c
}

func (o *object) at(field string) int {
	for i := 0; i < len(o.hash); i += 2 {
		if o.hash[i] == field {
			return i + 1
		}
	}
	return -1
}

func (o *object) field(name string) Reply {
	if i := o.at(name); i >= 0 {
		return o.hash[i]
	}
	return nil
}

func (o *object) unset(field string) bool {
	at := o.at(field)
	if at >= 0 {
		o.hash = slices.Delete(o.hash, at-1, at+1)
	}
	return at >= 0
}

func (o *object) join(member string) bool {
	at, there := slices.BinarySearch(o.set, member)
	if !there {
		o.set = slices.Insert(o.set, at, member)
	}
	return !there
}

func (o *object) leave(member string) bool {
	at, there := slices.BinarySearch(o.set, member)
	if there {
		o.set = slices.Delete(o.set, at, at+1)
	}
	return there
}

func (o *object) score(member string) int {
	return slices.IndexFunc(o.zset, func(s scored) bool { return s.member == member })
}

func (o *object) unscore(member string) bool {
	at := o.score(member)
	if at >= 0 {
		o.zset = slices.Delete(o.zset, at, at+1)
	}
	return at >= 0
}

func newStream() *object {
	return &object{kind: objStream, expire: Forever, stream: &stream{groups: map[string]*streamGroup{}}}
}

type streamID struct{ ms, seq int64 }

func (a streamID) compare(b streamID) int {
	return cmp.Or(cmp.Compare(a.ms, b.ms), cmp.Compare(a.seq, b.seq))
}

func (a streamID) String() string {
	return strconv.FormatInt(a.ms, 10) + "-" + strconv.FormatInt(a.seq, 10)
}

// parseID parses an ID. rest is the sequence of an ID without one.
func parseID(text string, rest int64) (id streamID, ok bool) {
	ms, seq, full := strings.Cut(text, "-")
	var err, err2 error
	id.ms, err = strconv.ParseInt(ms, 10, 64)
	if id.seq = rest; full {
		id.seq, err2 = strconv.ParseInt(seq, 10, 64)
	}
	return id, err == nil && err2 == nil
}

// idRange parses both inclusive ends of a range.
func idRange(from, to string) (low, high streamID, ok bool) {
	high = streamID{1 << 62, 1 << 62}
	ok, ok2 := true, true
	if from != "-" {
		low, ok = parseID(from, 0)
	}
	if to != "+" {
		high, ok2 = parseID(to, 1<<62)
	}
	return low, high, ok && ok2
}

type stream struct {
	entries []streamEntry // ascending; their fields never change
	last    streamID
	groups  map[string]*streamGroup // never ranged over
}

type streamEntry struct {
	id     streamID
	fields []string
}

type streamGroup struct {
	last      streamID
	consumers []string  // ascending
	pending   []pending // ascending by ID
}

type pending struct {
	id       streamID
	consumer string
	at       int64 // ms of the last delivery
	tries    int64
}

func (s *stream) clone() *stream {
	c := *s
	c.entries, c.groups = slices.Clone(s.entries), map[string]*streamGroup{}
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		g := *s.groups[name]
		g.consumers, g.pending = slices.Clone(g.consumers), slices.Clone(g.pending)
		c.groups[name] = &g
	}
	return &c
}

func (s *stream) find(id streamID) (int, bool) {
	return slices.BinarySearchFunc(s.entries, id, func(e streamEntry, id streamID) int { return e.id.compare(id) })
}

func (g *streamGroup) find(id streamID) (int, bool) {
	return slices.BinarySearchFunc(g.pending, id, func(p pending, id streamID) int { return p.id.compare(id) })
}

func (g *streamGroup) consumer(name string) (fresh bool) {
	at, there := slices.BinarySearch(g.consumers, name)
	if !there {
		g.consumers = slices.Insert(g.consumers, at, name)
	}
	return !there
}

func (e *streamEntry) reply() Reply { return []Reply{e.id.String(), texts(e.fields)} }
