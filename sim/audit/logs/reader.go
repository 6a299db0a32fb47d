// Package logs reads the structured logs of a fleet, and merges their entries in order of time.
package logs

import (
	"bufio"
	"bytes"
	"container/heap"
	"hash/maphash"
	"io"
	"math"
	"time"
)

// Counts counts what was read.
type Counts struct {
	Lines, Entries      int64
	Plain, Damaged, Cut int64 // lines that are no JSON: of others, of entries, cut off at the end of a file
	Bare                int64 // entries that lack a field
	Duplicates, Late    int64 // entries: logged twice, later than the window
}

// Input is a log: lines of JSON.
type Input struct {
	Name string
	io.Reader
}

// Reader yields the entries of all logs in order of time.
type Reader struct {
	Counts
	sources []*source
	line    line
	seed    maphash.Seed
	window  int64
	waiting byTime
	seq     uint64
	passed  int64 // time of the last entry that was yielded
	same    map[uint64]bool
}

// NewReader returns a Reader of logs whose entries may each be out of order by the window.
func NewReader(names Names, window time.Duration, logs ...Input) *Reader {
	r := &Reader{line: line{names: names, seen: map[string]string{}}, seed: maphash.MakeSeed(), window: int64(window), same: map[uint64]bool{}}
	for _, log := range logs {
		r.sources = append(r.sources, &source{name: log.Name, in: bufio.NewReaderSize(log, 256<<10), last: math.MinInt64 / 2})
	}
	return r
}

// Resume reads on after Next had no more. grows says that the logs may grow still.
func (r *Reader) Resume(grows bool) {
	for _, s := range r.sources {
		s.grows, s.idle = grows, false
	}
}

// Empty returns the names of the logs without an entry.
func (r *Reader) Empty() (names []string) {
	for _, s := range r.sources {
		if s.entries == 0 {
			names = append(names, s.name)
		}
	}
	return names
}

// Next returns the next entry, false if there is none yet.
func (r *Reader) Next(e *Entry) (bool, error) {
	for {
		s := r.slowest()
		if len(r.waiting) > 0 && r.waiting[0].At <= r.known(s) {
			if *e = *heap.Pop(&r.waiting).(*Entry); r.fresh(e) {
				return true, nil
			}
			continue
		}
		if s == nil {
			return false, nil
		}
		if err := r.read(s); err != nil {
			return false, err
		}
	}
}

// read reads a line.
func (r *Reader) read(s *source) error {
	text, end, err := s.next()
	if err != nil || len(text) == 0 {
		return err
	}
	e := &Entry{}
	if !r.take(text, end, e) {
		return nil
	}
	s.entries++
	s.last = max(s.last, e.At)
	if e.At < r.passed {
		r.Late++
		return nil
	}
	r.seq++
	e.seq = r.seq
	heap.Push(&r.waiting, e)
	return nil
}

// take parses a line. It reports whether e is an entry that the audit needs.
func (r *Reader) take(text []byte, end bool, e *Entry) bool {
	r.Lines++
	if !r.line.parse(text, e) {
		switch {
		case end: // a kill cut it off
			r.Cut++
		case bytes.Contains(text, []byte("event")) && bytes.Contains(text, []byte("instance")):
			r.Damaged++
		default:
			r.Plain++
		}
		return false
	}
	if e.Kind == Other || e.Instance == "" && e.Lease == "" {
		return false
	}
	r.Entries++
	if ofLease := e.Kind >= Acquired && e.Kind <= AcquireFailed; e.At == 0 || e.Instance == "" ||
		ofLease && (e.Lease == "" || !e.HasFence && e.Kind != AcquireFailed) {
		r.Bare++
		return false
	}
	e.sum = maphash.Bytes(r.seed, text)
	return true
}

// slowest returns the log that has to be read next; nil: there is nothing to read.
func (r *Reader) slowest() (slow *source) {
	for _, s := range r.sources {
		if !s.ended && !s.idle && (slow == nil || s.last < slow.last) {
			slow = s
		}
	}
	return slow
}

// known returns the time up to which all entries have been read: that of the slowest log, or, if all wait for more, of the newest.
func (r *Reader) known(slow *source) int64 {
	if slow != nil {
		return slow.last - r.window
	}
	known := int64(math.MaxInt64)
	for _, s := range r.sources {
		if !s.ended && (known == math.MaxInt64 || s.last-r.window > known) {
			known = s.last - r.window
		}
	}
	return known
}

// fresh reports whether the entry is no duplicate of one with the same time.
func (r *Reader) fresh(e *Entry) bool {
	if e.At != r.passed {
		clear(r.same)
	}
	r.passed = e.At
	if r.same[e.sum] {
		r.Duplicates++
		return false
	}
	r.same[e.sum] = true
	return true
}

// byTime is a heap of entries.
type byTime []*Entry

func (h byTime) Len() int { return len(h) }
func (h byTime) Less(i, k int) bool {
	return h[i].At < h[k].At || h[i].At == h[k].At && h[i].seq < h[k].seq
}
func (h byTime) Swap(i, k int) { h[i], h[k] = h[k], h[i] }
func (h *byTime) Push(e any)   { *h = append(*h, e.(*Entry)) }
func (h *byTime) Pop() any {
	n := len(*h) - 1
	e := (*h)[n]
	*h = (*h)[:n]
	return e
}
