package audit

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// source is one file or pipe of lines. Its entries are nearly in order of time.
type source struct {
	name string
	in   *bufio.Reader
	scanner
	seed    maphash.Seed
	entries int64 // entries of leases or instances
	last    int64 // largest time of an entry
	begun   bool
	ended   bool
	cut     []byte // the beginning of a line whose end is not written yet
	idle    bool   // all that is written was read
	tail    bool   // the end of the file may grow
}

// Open opens a file, compressed or not; "-" is standard input.
func Open(name string) (io.ReadCloser, error) {
	var file io.ReadCloser = os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		file = f
	}
	in := bufio.NewReaderSize(file, 256<<10)
	head, _ := in.Peek(4)
	var r io.Reader = in
	var err error
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		r, err = gzip.NewReader(in)
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		var d *zstd.Decoder
		if d, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1)); err == nil {
			r = d.IOReadCloser()
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{r, file}, nil
}

// next reads the next entry that the audit needs. It returns false at the end of the source, or of what has been written so far.
func (s *source) next(e *entry, c *Counts) (bool, error) {
	for {
		line, err := s.in.ReadSlice('\n')
		if len(line) > 0 && (err != nil || len(s.cut) > 0) { // a long line, or the end
			s.cut = append(s.cut, line...)
			line = s.cut
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return false, fmt.Errorf("%s: %w", s.name, err)
		case err != nil && s.tail:
			return false, nil // the line goes on later
		}
		s.cut = s.cut[:0]
		if len(bytes.TrimSpace(line)) > 0 && s.take(line, err != nil, e, c) {
			return true, nil
		}
		if err != nil {
			s.ended = true
			return false, nil
		}
	}
}

// take parses a line. It reports whether e is an entry that the audit needs.
func (s *source) take(line []byte, end bool, e *entry, c *Counts) bool {
	c.Lines++
	*e = entry{from: s}
	if !s.scan(line, e) {
		switch {
		case end: // a kill cut it off
			c.Cut++
		case bytes.Contains(line, []byte("event")) && bytes.Contains(line, []byte("instance")):
			c.Damaged++
		default:
			c.Plain++
		}
		return false
	}
	if e.kind == other || e.instance == "" && e.lease == "" {
		return false
	}
	s.entries++
	c.Entries++
	if e.at == 0 || e.instance == "" || e.kind.ofLease() && (e.lease == "" || !e.hasFence && e.kind != acquireFailed) {
		c.Bare++
		return false
	}
	e.sum = maphash.Bytes(s.seed, bytes.TrimSpace(line))
	return true
}

// merge yields the entries of all sources in order of time. Entries of one source may be out of order by the window.
type merge struct {
	sources []*source
	window  int64
	heap    []entry
	seq     uint64
	passed  int64 // time of the last entry that was yielded
	same    map[uint64]bool
	counts  *Counts
}

// next returns the next entry, false if there is none yet.
func (m *merge) next(e *entry) (bool, error) {
	for {
		s := m.slowest()
		if top := m.newest(); s == nil && top != nil && (len(m.heap) == 0 || m.heap[0].at > top.last-m.window) {
			return false, nil // more may be written
		}
		if len(m.heap) > 0 && (s == nil || s.begun && m.heap[0].at <= s.last-m.window) {
			if *e = m.pop(); m.fresh(e) {
				return true, nil
			}
			continue
		}
		if s == nil {
			return false, nil
		}
		var x entry
		ok, err := s.next(&x, m.counts)
		switch {
		case err != nil:
			return false, err
		case !ok:
			s.idle = true
			continue
		case s.begun && x.at < s.last-m.window:
			m.counts.Back++
		}
		s.begun, s.last = true, max(s.last, x.at)
		if x.at < m.passed {
			m.counts.Late++
			continue
		}
		m.seq++
		x.seq = m.seq
		m.push(x)
	}
}

// newest returns the source with the latest entry that may still grow; nil: none may.
func (m *merge) newest() (top *source) {
	for _, s := range m.sources {
		if !s.ended && (top == nil || s.last > top.last) {
			top = s
		}
	}
	return top
}

// slowest returns the source that has to be read next; nil: all have ended.
func (m *merge) slowest() (slow *source) {
	for _, s := range m.sources {
		if !s.ended && !s.idle && (slow == nil || !s.begun && slow.begun || s.begun == slow.begun && s.last < slow.last) {
			slow = s
		}
	}
	return slow
}

// fresh reports whether the entry is no duplicate of one with the same time.
func (m *merge) fresh(e *entry) bool {
	if e.at != m.passed {
		clear(m.same)
	}
	m.passed = e.at
	if m.same[e.sum] {
		m.counts.Duplicates++
		return false
	}
	m.same[e.sum] = true
	return true
}

func (m *merge) less(a, b *entry) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func (m *merge) push(e entry) {
	m.heap = append(m.heap, e)
	h := m.heap
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !m.less(&h[i], &h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (m *merge) pop() entry {
	h := m.heap
	e := h[0]
	n := len(h) - 1
	h[0] = h[n]
	m.heap = h[:n]
	h = m.heap
	for i := 0; ; {
		k := 2*i + 1
		if k >= n {
			return e
		}
		if k+1 < n && m.less(&h[k+1], &h[k]) {
			k++
		}
		if !m.less(&h[k], &h[i]) {
			return e
		}
		h[i], h[k] = h[k], h[i]
		i = k
	}
}
