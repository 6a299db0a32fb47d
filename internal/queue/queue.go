// Package queue passes items to a reader that may be slow or blocked forever, and never blocks the writer.
package queue

import "sync"

// Queue passes items to one function, in order, one at a time. Its goroutine runs only while there are items, so a Queue needs no start
// and no stop. If the reader is too far behind, the queue drops new items and counts them. Safe for concurrent use.
type Queue[T any] struct {
	most   int
	handle func(item T, dropped int64)

	mu      sync.Mutex
	items   []T
	batch   int // items of the present batch that are not handled yet
	spare   []T // memory of a handled batch, for reuse
	dropped int64
	running bool
	closed  bool
	idle    chan struct{} // closed when all items are handled; nil: no caller waits for that
}

// New returns a queue of at most most unhandled items. It passes them to handle, with the number of items dropped since the previous call.
func New[T any](most int, handle func(item T, dropped int64)) *Queue[T] {
	return &Queue[T]{most: most, handle: handle}
}

// Put adds an item and never waits. If the queue is full, it drops the item. If the reader has taken all waiting items, Put adds one even
// then, so that the reader learns how many were dropped.
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

// Close makes later calls of Put do nothing. Items already in the queue are still handled.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// Idle returns a channel that is closed when the queue is empty and all its items are handled.
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

func (q *Queue[T]) handled() {
	q.mu.Lock()
	q.batch--
	q.mu.Unlock()
}

// take returns the items to handle, nil if there are none and run must end.
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
