package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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
	long := strings.Repeat("x", 100_000)
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
		{"a foreign value that is longer than any owner", "5", redisstore.Holding{Owner: redisstore.Shown(long), Fence: 5}, false},
		{"a lease that nobody has", "5", redisstore.Holding{Owner: "", Fence: 5}, true},
	} {
		client.Del(t.Context(), key, fences)
		holder := "a"
		switch {
		case len(tt.of.Owner) > redisstore.NameMax:
			holder = long
		case tt.of.Owner == "":
			holder = ""
		}
		if holder != "" {
			client.Set(t.Context(), key, holder, time.Minute)
		}
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
			if !errors.Is(err, redisstore.ErrNotCurrent) || owner != holder || last != tt.fence {
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

// TestFenceOffAsRead: whatever a foreign hand wrote as the fence, who looks and who fences off read it alike, be it as none: else the lease
// would count as one that was given back just now, again and again.
func TestFenceOffAsRead(t *testing.T) { // G3
	server := redistest.Start(t)
	client := server.Client()
	s, _ := bootstrapped(t, client, redisstore.Options{Quarantine: time.Minute})
	for text, want := range map[string]int64{
		"5": 5, "0x10": 0, "1e3": 0, "5.5": 0, " 7": 0, "7\n": 0, "+5": 0, "-5": 0, "0": 0, "007": 0, "": 0, "9007199254740991": 1<<53 - 1,
		"9007199254740992": 0, "99999999999999999999": 0, "nan": 0, "inf": 0,
	} {
		client.Set(t.Context(), "poll:lease:thing", "a", time.Minute)
		client.Set(t.Context(), "{poll:lease:thing}:fence", text, 0)
		all, err := s.Holdings(t.Context(), "thing")
		if err != nil || len(all) != 1 || all[0].Fence != want {
			t.Fatalf("%q is read as %+v, %v; want fence %d", text, all, err, want)
		}
		if fence, err := s.FenceOff(t.Context(), "operator", all[0]); err != nil || fence <= want {
			t.Errorf("%q: fenced off under %d, %v", text, fence, err)
		}
	}
}

// byRules returns a client of a user who may do what the rules say.
func byRules(t *testing.T, server *redistest.Server, rules redisstore.Rules) *redis.Client {
	t.Helper()
	line := []any{"ACL", "SETUSER", "instance", "on", ">p", "resetkeys", "-@all"}
	for _, word := range strings.Fields(rules.String()) {
		line = append(line, word)
	}
	if err := server.Client().Do(t.Context(), line...).Err(); err != nil {
		t.Fatal(err)
	}
	own := *server.Client().Options()
	own.Username, own.Password = "instance", "p"
	client := redis.NewClient(&own)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// What an operator asks for is read by an instance with its own rights and no more, and is neither a lease nor the fence of one; a message
// on the channel alone says nothing.
func TestAskedStandsInRedis(t *testing.T) { // G1
	for _, prefix := range []string{"", "{poll}:lease:"} {
		server := redistest.Start(t)
		o := redisstore.Options{Quarantine: time.Minute, LeasePrefix: prefix}
		operator, _ := bootstrapped(t, server.Client(), o)
		instance := newStore(t, byRules(t, server, operator.Options().Rules(redisstore.Use{})), o)
		h := redisstore.Holding{ID: "thing", Owner: "a", Fence: 5}
		g := redisstore.Give{From: "operator", Lease: "thing", Owner: "a", Fence: 5}
		if instance.Asked(t.Context(), g) != "" {
			t.Error("asked for before anybody asked")
		}
		if err := operator.AskBack(t.Context(), "operator", time.Minute, h); err != nil {
			t.Fatal(err)
		}
		if instance.Asked(t.Context(), redisstore.Give{From: "x", Lease: "thing", Owner: "a", Fence: 5}) != "operator" {
			t.Errorf("%q: an instance does not read what is asked for", prefix)
		}
		for _, other := range []redisstore.Give{
			{From: "operator", Lease: "thing", Owner: "a", Fence: 6}, {From: "operator", Lease: "thing", Owner: "b", Fence: 5},
			{From: "operator", Lease: "thing", Owner: "a", Fence: 15}, {From: "operator", Lease: "other", Owner: "a", Fence: 5},
		} {
			if instance.Asked(t.Context(), other) != "" {
				t.Errorf("asked for: %+v", other)
			}
		}
		if all, err := operator.Holdings(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("it is taken for a lease: %+v, %v", all, err)
		}
	}
}

// sent is a hook that notes the length of the longest string that Redis sends.
type sent struct {
	redistest.Endless
	bytes *int
}

func (h sent) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		switch cmd := cmd.(type) {
		case *redis.StringCmd:
			*h.bytes = max(*h.bytes, len(cmd.Val()))
		case *redis.Cmd:
			text, _ := cmd.Text()
			*h.bytes = max(*h.bytes, len(text))
		}
		return err
	}
}

// Whoever may write the key by which an operator asks for a lease, and may publish, does not have an instance read it whole each time,
// whatever its user may call.
func TestWhatIsAskedIsCut(t *testing.T) {
	server := redistest.Start(t)
	server.Do("SET", "{poll:lease:thing asked}:fence", strings.Repeat("x", 1<<20))
	for name, client := range map[string]*redis.Client{
		"all": server.Client(), "what the rules allow": byRules(t, server, redisstore.Options{}.Rules(redisstore.Use{})),
	} {
		bytes := 0
		s := newStore(t, client, redisstore.Options{Hooks: []redis.Hook{sent{bytes: &bytes}}})
		if from := s.Asked(t.Context(), redisstore.Give{From: "x", Lease: "thing", Owner: "a", Fence: 5}); from != "" {
			t.Errorf("%s: asked by %.100q", name, from)
		}
		if most := 2 * redisstore.NameMax; bytes == 0 || bytes > most {
			t.Errorf("%s: Redis sends %d bytes, want some and at most %d", name, bytes, most)
		}
	}
}
