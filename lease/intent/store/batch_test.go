package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// puts makes n starts of different services at once; each must be answered with its own session.
func (f *fixture) puts(n int) {
	f.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			s := session(fmt.Sprint("s", i))
			id, exists, err := f.store.PutSessionWithIdempotency(f.Context(), s, s.Key, keyTTL)
			if err != nil || exists || id != s.ID {
				f.Errorf("%d: %q %v %v, want %q", i, id, exists, err, s.ID)
			}
		})
	}
	wg.Wait()
}

// reads is how often Redis has read from a connection.
func (f *fixture) reads() int {
	f.Helper()
	text, err := f.client.Info(f.Context(), "stats").Result()
	f.must(err)
	_, rest, _ := strings.Cut(text, "total_reads_processed:")
	word, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.Atoi(word)
	f.must(err)
	return n
}

// pause keeps Redis from answering for a while.
func (f *fixture) pause(d time.Duration) {
	f.Helper()
	f.must(f.client.Do(f.Context(), "client", "pause", d.Milliseconds(), "all").Err())
}

// Calls that are made while Redis is busy travel together, and every caller gets its own answer.
func TestCallsTravelTogether(t *testing.T) {
	const n = 500
	f := setup(t)
	before := f.reads()
	f.pause(50 * time.Millisecond)
	f.puts(n)
	// Batches of 32, and besides four of whatever size that were first, and a few reads that have to do with connections.
	if reads := f.reads() - before; reads > n/4 {
		t.Errorf("%d reads for %d calls", reads, n)
	}
	if got := f.length("v3:bus"); got != n {
		t.Errorf("%d entries for %d starts", got, n)
	}
}

// A Redis that has forgotten the scripts is told them again, and nothing is accepted twice or lost by that.
func TestScriptsAreForgotten(t *testing.T) {
	f := setup(t)
	f.put("first")
	f.must(f.client.ScriptFlush(t.Context()).Err())
	f.puts(100)
	if got := f.length("v3:bus"); got != 101 {
		t.Errorf("%d entries for 101 starts", got)
	}
}

// Who does not wait any more is not waited for, and what he wanted and was not sent yet is not done.
func TestCallerLeaves(t *testing.T) {
	f := setup(t)
	f.pause(200 * time.Millisecond)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("left")
	var wg sync.WaitGroup
	for i := range batchesMax * 50 { // the first of them fill the connections
		wg.Go(func() {
			s := session(fmt.Sprint("s", i))
			_, _, err := f.store.PutSessionWithIdempotency(ctx, s, s.Key, keyTTL)
			if !errors.Is(err, ErrUnavailable) || !errors.Is(err, cause) {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	cancel(cause)
	wg.Wait()
	f.put("last") // waits for the pause to end
	if got := f.length("v3:bus"); got > batchesMax*batchMax+1 {
		t.Errorf("%d starts are on the bus", got)
	}
}
