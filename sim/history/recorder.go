package history

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"
	"strings"
	"sync"
)

// Recorder collects the events of a run. A witness may report late, such as a frozen process after its thaw. So readers get the
// events sorted by T, and in the order of Add for equal T. All methods are safe for concurrent use.
type Recorder struct {
	mu     sync.Mutex
	chunks [][]compact
	ids    map[string]uint32
	names  []string

	journal *journal // nil: no journal
	hear    func(*Event)
}

// compact is an Event with its strings as indexes in Recorder.names. It takes 56 bytes instead of 104, without pointers.
type compact struct {
	t, fence, until, n              int64
	node, instance, session, reason uint32
	kind                            Kind
}

// chunkLen is the length of a chunk. Full chunks are never copied.
const chunkLen = 4096

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder {
	return &Recorder{ids: map[string]uint32{"": 0}, names: []string{""}}
}

// Add records one event. It replaces invalid UTF-8, because the history file is JSON.
func (r *Recorder) Add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Kind >= kindCount {
		e.Kind = KindUnknown
	}
	last := len(r.chunks) - 1
	if last < 0 || len(r.chunks[last]) == chunkLen {
		r.chunks = append(r.chunks, make([]compact, 0, chunkLen))
		last++
	}
	r.chunks[last] = append(r.chunks[last], compact{
		t: e.T, fence: e.Fence, until: e.Until, n: e.N, kind: e.Kind,
		node: r.id(e.Node), instance: r.id(e.Instance), session: r.id(e.Session), reason: r.id(e.Reason),
	})
	if r.hear != nil {
		r.hear(&e)
	}
	if r.journal != nil {
		e.Reason = r.names[r.id(e.Reason)] // as in the saved history
		r.journal.add(&e)
	}
}

// Hear makes the Recorder call f with each later event, one at a time, in the order of Add. f must not call the Recorder.
func (r *Recorder) Hear(f func(*Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hear = f
}

func (r *Recorder) id(s string) uint32 {
	if s == "" {
		return 0
	}
	if id, ok := r.ids[s]; ok {
		return id
	}
	s = strings.ToValidUTF8(strings.Clone(s), "\uFFFD")
	if id, ok := r.ids[s]; ok {
		return id
	}
	id := uint32(len(r.names))
	r.ids[s] = id
	r.names = append(r.names, s)
	return id
}

// Len returns the number of events so far.
func (r *Recorder) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.len()
}

func (r *Recorder) len() int {
	if len(r.chunks) == 0 {
		return 0
	}
	return (len(r.chunks)-1)*chunkLen + len(r.chunks[len(r.chunks)-1])
}

// Events returns the events so far, in order of T. The error is always nil; it lets the judge read a Recorder like a file.
func (r *Recorder) Events() iter.Seq2[Event, error] {
	parts, names := r.parts()
	return func(yield func(Event, error) bool) {
		for c := range merged(parts) {
			if !yield(c.event(names), nil) {
				return
			}
		}
	}
}

// parts returns the events so far in sorted parts, and their names. The returned names stay valid, because names are only appended. parts
// copies only the last part, because a history may take half of the memory.
func (r *Recorder) parts() (parts [][]compact, names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	parts = slices.Clone(r.chunks)
	for i, c := range parts {
		if i == len(parts)-1 { // still grows
			c = slices.Clone(c)
			parts[i] = c
		}
		if !slices.IsSortedFunc(c, byTime) {
			slices.SortStableFunc(c, byTime)
		}
	}
	return parts, r.names[:len(r.names):len(r.names)]
}

func byTime(a, b compact) int { return cmp.Compare(a.t, b.t) }

// merging is a heap of parts by their first event. For equal times, the earlier part comes first.
type merging []part

type part struct {
	rest []compact // never empty
	n    int
}

func (m merging) Len() int { return len(m) }

func (m merging) Less(i, j int) bool {
	if a, b := m[i].rest[0].t, m[j].rest[0].t; a != b {
		return a < b
	}
	return m[i].n < m[j].n
}

func (m merging) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m *merging) Push(p any)   { *m = append(*m, p.(part)) }

func (m *merging) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

// merged yields the events of all parts in order of time, and for equal times in the order of Add.
func merged(parts [][]compact) iter.Seq[*compact] {
	return func(yield func(*compact) bool) {
		var m merging
		for n, p := range parts {
			if len(p) > 0 {
				m = append(m, part{p, n})
			}
		}
		for heap.Init(&m); len(m) > 0; {
			first := &m[0]
			if !yield(&first.rest[0]) {
				return
			}
			if first.rest = first.rest[1:]; len(first.rest) > 0 {
				heap.Fix(&m, 0)
			} else {
				heap.Pop(&m)
			}
		}
	}
}

func (c *compact) event(names []string) Event {
	return Event{
		T: c.t, Kind: c.kind, Node: names[c.node], Instance: names[c.instance], Session: names[c.session],
		Fence: c.fence, Until: c.until, N: c.n, Reason: names[c.reason],
	}
}

// Save writes the events in order of T to path, compressed if path ends in ".zst". The file appears complete or not at all.
func (r *Recorder) Save(path string) error {
	w, err := Create(path)
	if err != nil {
		return err
	}
	parts, names := r.parts()
	quoted := make([][]byte, len(names)) // each name is escaped once, not once per line
	for i, s := range names {
		quoted[i] = appendQuoted(nil, s)
	}
	for c := range merged(parts) {
		w.line = c.append(w.line[:0], quoted)
		if err := w.writeLine(); err != nil {
			break // Close reports it
		}
	}
	return w.Close()
}

func (c *compact) append(dst []byte, quoted [][]byte) []byte {
	dst = appendHead(dst, c.t, c.kind)
	dst = appendName(dst, `,"node":`, c.node, quoted)
	dst = appendName(dst, `,"instance":`, c.instance, quoted)
	dst = appendName(dst, `,"session":`, c.session, quoted)
	dst = appendNumber(dst, `,"fence":`, c.fence)
	dst = appendNumber(dst, `,"until":`, c.until)
	dst = appendNumber(dst, `,"n":`, c.n)
	dst = appendName(dst, `,"reason":`, c.reason, quoted)
	return append(dst, '}', '\n')
}

func appendName(dst []byte, field string, id uint32, quoted [][]byte) []byte {
	if id == 0 {
		return dst
	}
	dst = append(dst, field...)
	return append(dst, quoted[id]...)
}
