package redisstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// TestFenceOff: what is fenced off is exactly the term that was named, for the time that it had left, under a higher fence. What is no
// fence counts as none.
func TestFenceOff(t *testing.T) { // G1, G3, G10
	server := redistest.Start(t)
	client := server.Client()
	s, _ := bootstrapped(t, client, redisstore.Options{Quarantine: time.Minute})
	const key, fences, foreign = "poll:lease:thing", "{poll:lease:thing}:fence", "a list"
	for _, tt := range []struct {
		name    string
		fence   any // what the key of the fence holds; nil: nothing
		of      redisstore.Holding
		refused bool
	}{
		{"the present term", "5", redisstore.Holding{Owner: "a", Fence: 5}, false},
		{"another owner", "5", redisstore.Holding{Owner: "b", Fence: 5}, true},
		{"another term", "5", redisstore.Holding{Owner: "a", Fence: 4}, true},
		{"a term without a fence", nil, redisstore.Holding{Owner: "a"}, false},
		{"a term that has a fence by now", "5", redisstore.Holding{Owner: "a"}, true},
		{"a fence below any", "-3", redisstore.Holding{Owner: "a"}, false},
		{"a fence beyond any", "9007199254740993", redisstore.Holding{Owner: "a"}, false},
		{"a fence that is no number", "x", redisstore.Holding{Owner: "a"}, false},
		{"a fence that is no string", foreign, redisstore.Holding{Owner: "a"}, false},
	} {
		client.Del(t.Context(), key, fences)
		client.Set(t.Context(), key, "a", time.Minute)
		if tt.fence == foreign {
			client.RPush(t.Context(), fences, "x")
			tt.fence = nil
		}
		if tt.fence != nil {
			client.Set(t.Context(), fences, tt.fence, 0)
		}
		tt.of.ID = "thing"
		fence, err := s.FenceOff(t.Context(), "operator", tt.of)
		owner, last := client.Get(t.Context(), key).Val(), client.Get(t.Context(), fences).Val()
		if tt.refused {
			if !errors.Is(err, redisstore.ErrNotCurrent) || owner != "a" || last != tt.fence {
				t.Errorf("%s: %v, and the lease is %s's under %s, want that nothing was done", tt.name, err, owner, last)
			}
			continue
		}
		if err != nil || owner != "operator" || fence <= 5 || fence >= 1<<53 {
			t.Errorf("%s: fence %d, %v, and the lease is %s's", tt.name, fence, err, owner)
		}
		if left := client.PTTL(t.Context(), key).Val(); left <= 0 || left > time.Minute {
			t.Errorf("%s: the lease expires in %v, want that it does when it would have", tt.name, left)
		}
	}
}
