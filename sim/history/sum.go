package history

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"iter"
)

// Sum is the SHA-256 of events as lines of history.jsonl. Equal histories have equal sums. It is not safe for concurrent use.
type Sum struct {
	hash hash.Hash
	buf  []byte
}

const sumBatch = 1 << 15

// NewSum returns a Sum without events.
func NewSum() *Sum { return &Sum{hash: sha256.New(), buf: make([]byte, 0, sumBatch+1<<10)} }

// Add adds one event.
func (s *Sum) Add(e *Event) {
	s.buf = AppendLine(s.buf, e)
	if len(s.buf) >= sumBatch {
		s.flush()
	}
}

func (s *Sum) flush() {
	s.hash.Write(s.buf)
	s.buf = s.buf[:0]
}

// String returns the sum of the events so far, in hexadecimal.
func (s *Sum) String() string {
	s.flush()
	return hex.EncodeToString(s.hash.Sum(nil))
}

// Summed returns the same events, and a function that returns the sum of the events that the latest iteration has yielded so
// far.
func Summed(events iter.Seq2[Event, error]) (iter.Seq2[Event, error], func() string) {
	s := NewSum()
	return func(yield func(Event, error) bool) {
		s = NewSum()
		for e, err := range events {
			if err == nil {
				s.Add(&e)
			}
			if !yield(e, err) {
				return
			}
		}
	}, func() string { return s.String() }
}
