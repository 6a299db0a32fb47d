// Package queue hands what is put to a reader that may be slow, or stuck for good, without ever holding up who puts it.
package queue

import "sync"

// Queue hands items to one function, in order, one at a time. A goroutine runs only while there are items to hand, so that there is
// nothing to start and nothing to end. When the reader is a given number behind, new items are counted instead of kept. Safe for
// concurrent use.
type Queue[T any] struct {
	most   int
	handle func(item T, dropped int64)

	mu      sync.Mutex
	items   []T
	batch   int // items that were taken to be handled, and were not yet
	spare   []T // the memory of a batch that was handled
	dropped int64
	running bool
	closed  bool
	idle    chan struct{} // closed when all was handled; nil: nobody waits for that
}

// New returns a queue that keeps at most that many items, also those that were taken to be handled, and hands them to handle, which is
// told with an item how many were missed since the last.
func New[T any](most int, handle func(item T, dropped int64)) *Queue[T] {
	return &Queue[T]{most: most, handle: handle}
}

// Put never waits. One item is kept whatever is being handled, so that the reader is told what it missed with it.
func (q *Queue[T]) Put(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return
	case len(q.items) > 0 && q.batch+len(q.items) >= q.most:
		q.dropped++
		return
	}
	q.items = append(q.items, item)
	if !q.running {
		q.running = true
		go q.run()
	}
}

// Close has nothing put any more. What was is handled.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// Idle returns a channel that is closed when everything that was put has been handled.
func (q *Queue[T]) Idle() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.idle != nil {
		return q.idle
	}
	idle := make(chan struct{})
	if q.running {
		q.idle = idle
	} else {
		close(idle)
	}
	return idle
}

func (q *Queue[T]) run() {
	for {
		batch, dropped := q.take()
		if batch == nil {
			return
		}
		for i, item := range batch {
			q.handle(item, dropped)
			dropped = 0
			clear(batch[i : i+1]) // do not keep what it refers to alive
			q.handled()
		}
		q.mu.Lock()
		q.spare = batch[:0]
		q.mu.Unlock()
	}
}

// handled takes note that one more of the batch was.
func (q *Queue[T]) handled() {
	q.mu.Lock()
	q.batch--
	q.mu.Unlock()
}

// take returns what is to be handled; nil: nothing, and run ends.
func (q *Queue[T]) take() (batch []T, dropped int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		q.running = false
		if q.idle != nil {
			close(q.idle)
			q.idle = nil
		}
		return nil, 0
	}
	batch, q.items, q.spare = q.items, q.spare, nil
	q.batch = len(batch)
	dropped, q.dropped = q.dropped, 0
	return batch, dropped
}
