package redisstore_test

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// Only an instance that still holds the lease, under the same fence, records its work as done.
func TestDone(t *testing.T) {
	srv := redistest.Start(t)
	for _, prefix := range []string{"", "{poll}:lease:"} {
		options := redisstore.Options{LeasePrefix: prefix}
		if prefix != "" {
			options.EpochKey, options.NodePrefix = "{poll}:epoch", "{poll}:node:"
		}
		s, epoch := bootstrapped(t, srv.Client(), options)
		fence := s.Do(t.Context(), acquire(epoch, "a", "job")).Results[0].Fence
		for _, c := range []struct {
			owner       string
			fence       int64
			noted, done bool
		}{{"b", fence, false, false}, {"a", fence - 1, false, false}, {"a", fence, true, true}} {
			h := redisstore.Holding{ID: "job", Owner: c.owner, Fence: c.fence}
			if noted, err := s.NoteDone(t.Context(), h, time.Minute); err != nil || noted != c.noted {
				t.Errorf("%q: NoteDone of %s, fence %d: %v, %v", prefix, c.owner, c.fence, noted, err)
			}
			if done, err := s.Done(t.Context(), "job"); err != nil || done != c.done {
				t.Errorf("%q: Done: %v, %v", prefix, done, err)
			}
		}
		if done, err := s.Done(t.Context(), "other"); err != nil || done {
			t.Errorf("%q: Done of another lease: %v, %v", prefix, done, err)
		}
	}
}
