package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// puts makes n concurrent starts of different services. Each must get its own session.
func (f *fixture) puts(n int) {
	f.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			s := session(fmt.Sprint("s", i))
			id, exists, err := f.store.Put(f.Context(), s.ID, s.Request, keyTTL)
			if err != nil || exists || id != s.ID {
				f.Errorf("%d: %q %v %v, want %q", i, id, exists, err, s.ID)
			}
		})
	}
	wg.Wait()
}

// reads returns how often Redis has read from a connection.
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

// pause keeps Redis from answering for d.
func (f *fixture) pause(d time.Duration) {
	f.Helper()
	f.must(f.client.Do(f.Context(), "client", "pause", d.Milliseconds(), "all").Err())
}

// Calls made while Redis is busy travel together, and every caller gets its own answer.
func TestCallsTravelTogether(t *testing.T) {
	const n = 500
	f := setup(t)
	f.store = f.open(Options{Leases: f.store.Options().Leases, OpTimeout: 20 * time.Second}) // with 500 at once, some wait long
	before := f.reads()
	f.pause(50 * time.Millisecond)
	f.puts(n)
	// Batches of 32, plus the first ones of any size and a few reads about connections.
	if reads := f.reads() - before; reads > n/4 {
		t.Errorf("%d reads for %d calls", reads, n)
	}
	if got := f.length("intent:bus"); got != n {
		t.Errorf("%d entries for %d starts", got, n)
	}
}

// If Redis forgets the scripts, the store loads them again, and no call is lost or executed twice.
func TestScriptsAreForgotten(t *testing.T) {
	f := setup(t)
	f.put("first")
	f.must(f.client.ScriptFlush(t.Context()).Err())
	f.puts(100)
	if got := f.length("intent:bus"); got != 101 {
		t.Errorf("%d entries for 101 starts", got)
	}
}

// A caller that no longer waits delays nobody. Its call is dropped if it has not been sent.
func TestCallerLeaves(t *testing.T) {
	const leavers = 100
	f := setup(t)
	f.put("first") // so that the frozen server knows the script
	f.server.Freeze()
	var sent, left sync.WaitGroup
	for i := range 16 {
		sent.Go(func() {
			s := session(fmt.Sprint("sent", i))
			if _, _, err := f.store.Put(t.Context(), s.ID, s.Request, keyTTL); err != nil {
				t.Error(err)
			}
		})
	}
	f.queue(16, 0)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("left")
	for i := range leavers {
		left.Go(func() {
			s := session(fmt.Sprint("left", i))
			_, _, err := f.store.Put(ctx, s.ID, s.Request, keyTTL)
			if !errors.Is(err, ErrUnavailable) || !errors.Is(err, cause) {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	f.queue(16, leavers)
	cancel(cause)
	left.Wait() // while Redis is frozen
	f.server.Thaw()
	sent.Wait()
	f.queue(0, 0)
	if got := f.length("intent:bus"); got != 16+1 {
		t.Errorf("%d starts are on the bus, want %d", got, 16+1)
	}
}

// A lane given to a leaving caller passes to the next one.
func TestLaneOfALeaver(t *testing.T) {
	b := &batcher{lanes: 1}
	first, leaver, next := &scriptCall{}, &scriptCall{}, &scriptCall{}
	if !b.enter(first) || b.enter(leaver) || b.enter(next) {
		t.Fatal("one lane is for one")
	}
	b.leave()
	b.quit(leaver)
	select {
	case got := <-next.turn:
		if got != send {
			t.Error("the next is told that he was answered")
		}
	default:
		t.Error("the lane is lost")
	}
	b.leave()
	if b.busy != 0 || len(b.waiting) != 0 {
		t.Errorf("%d lanes are in use, %d wait", b.busy, len(b.waiting))
	}
}

// queue waits until this many lanes are in use and this many callers wait.
func (f *fixture) queue(busy, waiting int) {
	f.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	timeout := time.After(10 * time.Second)
	for {
		b := f.store.batcher
		b.mu.Lock()
		isBusy, isWaiting := b.busy, len(b.waiting)
		b.mu.Unlock()
		if isBusy == busy && isWaiting == waiting {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			f.Fatalf("%d lanes are in use and %d wait, want %d and %d", isBusy, isWaiting, busy, waiting)
		}
	}
}

// asks is a hook that records the number of words of the longest call.
type asks struct{ longest int }

func (a *asks) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *asks) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		a.longest = max(a.longest, len(cmd.Args()))
		return next(ctx, cmd)
	}
}

func (a *asks) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A list reads its page in several short calls, and the page is complete.
func TestPageIsReadInParts(t *testing.T) { // I5
	f := setup(t)
	var want []string
	for i := range 2*readMax + 1 {
		want = append([]string{f.put(fmt.Sprint("s", i)).ID}, want...)
	}
	st, longest := f.open(Options{}), &asks{}
	st.client.AddHook(longest)
	page, next, err := st.List(t.Context(), "", len(want))
	var got []string
	for _, s := range page {
		got = append(got, s.ID)
	}
	if most := readMax + len(recordFields) + 10; err != nil || next != "" || !slices.Equal(got, want) || longest.longest > most {
		t.Errorf("%d sessions (%v), %q, in calls of up to %d words; want %d, of at most %d", len(got), err, next, longest.longest, len(want), most)
	}
}
