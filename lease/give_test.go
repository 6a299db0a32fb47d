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

// An operator's asking ends the work under the very term that it names, and no other.
func TestAskedBackGivesTheNamedTerm(t *testing.T) { // G1
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		g := newRig(t, r, "a", true, nil)
		pass(time.Second)
		asked := func(owner, name string, fence int64) {
			r.forge(core.Notice{Kind: redisstore.NoticeGive, From: "leasectl", IDs: []string{name},
				Peers: []string{owner, strconv.FormatInt(fence, 10)}})
			pass(time.Second)
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
