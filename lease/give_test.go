package lease

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// An operator's request ends the work under exactly the named term.
func TestAskedBackGivesTheNamedTerm(t *testing.T) { // G1
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		g := newRig(t, r, "a", true, nil)
		pass(time.Second)
		said := func(owner, name string, fence int64) {
			r.forge(core.Notice{Kind: redisstore.NoticeGive, From: "leasectl", IDs: []string{name},
				Peers: []string{owner, strconv.FormatInt(fence, 10)}})
			pass(time.Second)
		}
		asked := func(owner, name string, fence int64) {
			r.mu.Lock()
			r.asked = append(r.asked, redisstore.Give{From: "leasectl", Lease: name, Owner: owner, Fence: fence})
			r.mu.Unlock()
			said(owner, name, fence)
		}
		begun, fence := make(chan struct{}), int64(0)
		ended := make(chan error, 1)
		go func() {
			ended <- g.keeperOf().Do(t.Context(), "job", func(ctx context.Context, f int64) error {
				fence = f
				close(begun)
				<-ctx.Done()
				return nil
			})
		}()
		<-begun
		asked("a", "job", fence-1)
		asked("b", "job", fence)
		asked("a", "other", fence)
		said("a", "job", fence) // as a client that may only publish
		select {
		case err := <-ended:
			t.Fatalf("given back for what named another term: %v", err)
		default:
		}
		asked("a", "job", fence)
		select {
		case err := <-ended:
			if !errors.Is(err, ErrLost) {
				t.Errorf("Do = %v, want ErrLost", err)
			}
		default:
			t.Fatal("not given back")
		}
		if h, err := g.keeperOf().TryAcquire(t.Context(), "job"); err != nil || h.Fence() <= fence {
			t.Errorf("afterwards: %v, %v", h, err)
		}
	})
}

// A client that may only publish, and knows the fence of a term, causes a few reads of Redis, whatever it sends. It keeps nobody from being
// heard.
func TestForgedAskingsAreReadSeldom(t *testing.T) { // G14
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		g := newRig(t, r, "a", true, nil)
		pass(time.Second)
		h, err := g.keeperOf().TryAcquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		forged := func(from string) {
			r.forge(core.Notice{Kind: redisstore.NoticeGive, From: from, IDs: []string{"job"}, Peers: []string{"a", strconv.FormatInt(h.Fence(), 10)}})
		}
		for range 1000 {
			forged("x")
			pass(time.Millisecond)
		}
		pass(time.Second)
		r.mu.Lock()
		reads := r.reads
		r.mu.Unlock()
		if most := int(time.Second/askPause) + 2; reads == 0 || reads > most {
			t.Errorf("%d readings, want 1 to %d", reads, most)
		}
		if !h.Valid() {
			t.Error("given back for what stands nowhere")
		}
		r.mu.Lock()
		r.asked = append(r.asked, redisstore.Give{From: "leasectl", Lease: "job", Owner: "a", Fence: h.Fence()})
		r.mu.Unlock()
		forged("x") // beside the operator's own request, which still arrives
		pass(time.Second)
		if h.Context().Err() == nil {
			t.Error("the work was not ended, though it stands in Redis that it is asked for")
		}
	})
}
