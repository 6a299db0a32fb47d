package real

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/protocol"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/stream"
)

func follow(t *testing.T, r *Redis) (*host.Clock, *history.Recorder) {
	t.Helper()
	rec, clock := history.NewRecorder(), host.NewClock()
	s := stream.Open(r.streamed(), &systems[systemPolling].Keys, clock, rec.Add)
	t.Cleanup(s.Close)
	if err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return clock, rec
}

func TestStreamSeesWhatRedisDid(t *testing.T) {
	r := provision(t)
	ctx, c := t.Context(), r.client.Load()
	c.Set(ctx, "poll:lease:old", "first", time.Minute) // before the stream: in its snapshot
	c.Set(ctx, "poll:epoch", "run 0", 0)
	clock, rec := follow(t, r)
	c.Set(ctx, "poll:lease:s", "me", time.Minute)
	c.SetNX(ctx, "poll:lease:s", "other", time.Minute) // refused: grants nothing
	c.Eval(ctx, `redis.call('PEXPIRE', KEYS[1], 2000)`, []string{"poll:lease:s"})
	extended := clock.Now()
	c.Set(ctx, "{poll:lease:s}:fence", 41, 0)
	c.Incr(ctx, "{poll:lease:s}:fence")
	c.Set(ctx, "poll:node:me", 1, time.Minute)
	c.Del(ctx, "poll:node:me", "poll:lease:s")
	c.Set(ctx, "poll:lease:short", "me", 30*time.Millisecond)
	c.Set(ctx, "session:s", "{}", 0)
	c.Set(ctx, "poll:epoch", "run 5", 0)
	c.Do(ctx, "SELECT", 0)
	c.Set(ctx, "poll:lease:list", "", time.Minute)
	c.FlushAll(ctx)
	eventually(t, "the flush was not seen", func() bool { return count(collect(t, rec), history.RedisFlushed) == 1 })
	for _, w := range []struct {
		kind     history.Kind
		session  string
		instance string
		fence    int64
		n        int
	}{
		{history.TapUp, "", "", 0, 1},
		{history.RedisGranted, "old", "first", 0, 1},
		{history.RedisGranted, "s", "me", 0, 1},
		{history.RedisGranted, "s", "other", 0, 0},
		{history.RedisExtended, "s", "me", 0, 1},
		{history.RedisDeleted, "s", "me", 0, 1},
		{history.RedisFence, "s", "", 41, 1},
		{history.RedisFence, "s", "", 42, 1},
		{history.RedisBeat, "", "me", 0, 1},
		{history.RedisBeatGone, "", "me", 0, 1},
		{history.RedisGranted, "short", "me", 0, 1},
		{history.TapDown, "", "", 0, 0},
	} {
		n := count(collect(t, rec), w.kind, func(e history.Event) bool {
			return e.Session == w.session && e.Instance == w.instance && e.Fence == w.fence
		})
		if n != w.n {
			t.Errorf("%v session %q instance %q fence %d: %d times, want %d", w.kind, w.session, w.instance, w.fence, n, w.n)
		}
	}
	for _, want := range []history.Event{{N: 1, Reason: "run 0"}, {Reason: "run 5"}} {
		n := count(collect(t, rec), history.RedisEpoch, func(e history.Event) bool { return e.N == want.N && e.Reason == want.Reason })
		if n != 1 {
			t.Errorf("epoch %q with n %d: %d times, want 1", want.Reason, want.N, n)
		}
	}
	for _, e := range collect(t, rec) {
		if e.Kind == history.RedisExtended {
			until := extended + int64(2*time.Second)
			if e.Until > until+int64(2*time.Millisecond) || e.Until < until-int64(100*time.Millisecond) {
				t.Errorf("extended until %v, want about %v", time.Duration(e.Until), time.Duration(until))
			}
		}
	}
}

func TestStreamSeesAnExpiry(t *testing.T) {
	r := provision(t)
	_, rec := follow(t, r)
	r.client.Load().Set(t.Context(), "poll:lease:s", "me", 30*time.Millisecond)
	eventually(t, "the expiry was not seen", func() bool { return count(collect(t, rec), history.RedisDeleted) == 1 })
	for _, e := range collect(t, rec) {
		if e.Kind == history.RedisDeleted && (e.Session != "s" || e.Instance != "me") {
			t.Errorf("expired: %+v", e)
		}
	}
}

// A SET with KEEPTTL keeps the key's expiry, which the stream does not show.
func TestStreamKnowsWhatKeepsItsEnd(t *testing.T) {
	r := provision(t)
	ctx, c := t.Context(), r.client.Load()
	c.Set(ctx, "poll:lease:old", "me", time.Minute) // before the stream: the snapshot has its expiry
	_, rec := follow(t, r)
	c.Set(ctx, "poll:lease:new", "me", time.Minute)
	c.Set(ctx, "poll:lease:long", "me", time.Minute)
	c.PExpire(ctx, "poll:lease:long", 2*time.Minute)
	c.Set(ctx, "poll:lease:endless", "me", 0)
	for _, id := range []string{"old", "new", "long", "endless"} {
		c.Set(ctx, "poll:lease:"+id, "hand", redis.KeepTTL)
	}
	taken := func(e history.Event) bool { return e.Instance == "hand" }
	eventually(t, "not all were shown", func() bool { return count(collect(t, rec), history.RedisGranted, taken) == 4 })
	ends := map[string]int64{}
	for _, e := range collect(t, rec) {
		switch {
		case e.Kind != history.RedisGranted && e.Kind != history.RedisExtended:
		case taken(e) && (e.Until != ends[e.Session] || e.T >= int64(50*time.Second)):
			t.Errorf("%s was taken at %d and lasts until %d, want %d", e.Session, e.T, e.Until, ends[e.Session])
		default:
			ends[e.Session] = e.Until
		}
	}
	if ends["old"] == 0 || ends["new"] == 0 || ends["long"] <= ends["new"] || ends["endless"] != 0 {
		t.Errorf("ends: %v", ends)
	}
}

// A node may acquire its lease by any command. After a command that the stream cannot decode, the holder is unknown, not nobody.
func TestStreamKnowsWhatItCannotRead(t *testing.T) {
	t.Parallel()
	r := provision(t)
	ctx, c := t.Context(), r.client.Load()
	_, rec := follow(t, r)
	const unknown = ""
	for name, s := range map[string]struct {
		commands []string // * is the lease's key
		holders  []string // shown one after the other
	}{
		"SETNX":     {[]string{"SETNX * me", "SETNX * other", "PEXPIRE * 60000"}, []string{"me"}},
		"MSETNX":    {[]string{"MSETNX some:other 1 * me", "MSETNX some:third 1 * other"}, []string{"me"}},
		"GETSET":    {[]string{"GETSET * me", "GETSET * other"}, []string{"me", "other"}},
		"GETEX":     {[]string{"SET * me", "GETEX * PX 60000"}, []string{"me"}},
		"HSET":      {[]string{"HSET * owner me", "PEXPIRE * 60000"}, []string{unknown}},
		"HINCRBY":   {[]string{"HINCRBY * me 1", "HINCRBY * me -1"}, []string{unknown, unknown}},
		"INCR":      {[]string{"INCR *", "DEL *", "SET * me"}, []string{unknown, "me"}},
		"APPEND":    {[]string{"SET * me", "APPEND * more"}, []string{"me", unknown}},
		"KEEPTTL":   {[]string{"SETRANGE * 0 me", "SET * other KEEPTTL", "SET * me PX 60000"}, []string{unknown, unknown, "me"}},
		"RENAME":    {[]string{"SET some:new me", "RENAME some:new *", "RENAME * some:old"}, []string{unknown, unknown}},
		"COPY":      {[]string{"SET some:copy me", "COPY some:copy *"}, []string{unknown}},
		"LMOVE":     {[]string{"RPUSH some:list me", "LMOVE some:list * LEFT LEFT"}, []string{unknown}},
		"SORT":      {[]string{"RPUSH some:numbers 1", "SORT some:numbers STORE *"}, []string{unknown}},
		"XADD":      {[]string{"XADD * 1-1 owner me"}, []string{unknown}},
		"its name":  {[]string{"SADD some:set *", "HSET some:hash owner *", "RPUSH some:names *", "PUBLISH some:channel *", "PUBLISH * me"}, nil},
		"its index": {[]string{"ZADD some:index 1 *", "SREM some:set *", "ZREM some:index *", "XADD some:stream 1-1 lease *"}, nil},
		"fence":     {[]string{"INCR {*}:fence", "APPEND {*}:fence 0", "INCR {*}:fence", "SETNX {*}:fence 3", "DEL {*}:fence", "SETNX {*}:fence 7"}, nil},
	} {
		id := strings.ReplaceAll(name, " ", "-")
		for _, text := range s.commands {
			var words []any
			for _, w := range strings.Fields(strings.ReplaceAll(text, "*", protocol.Polling.Leases+id)) {
				words = append(words, w)
			}
			if err := c.Do(ctx, words...).Err(); err != nil && !errors.Is(err, redis.Nil) {
				t.Fatalf("%s: %v", text, err)
			}
		}
		end := "end of " + name
		c.Set(ctx, protocol.Polling.Epoch, end, 0)
		eventually(t, name+": the stream is not read", func() bool {
			return count(collect(t, rec), history.RedisEpoch, func(e history.Event) bool { return e.Reason == end }) == 1
		})
		var holders []string
		var fences []int64
		for _, e := range collect(t, rec) {
			switch {
			case e.Session != id:
			case e.Kind == history.RedisGranted:
				holders = append(holders, e.Instance)
			case e.Kind == history.RedisFence:
				fences = append(fences, e.Fence)
			}
		}
		if !slices.Equal(holders, s.holders) {
			t.Errorf("%s: Redis shows it with %q, want %q", name, holders, s.holders)
		}
		if name == "fence" && !slices.Equal(fences, []int64{1, 7}) {
			t.Errorf("fences: %v, want those of what is read, 1 and 7", fences)
		}
	}
}

func TestStreamFollowsRedisOverARestart(t *testing.T) {
	r := provision(t)
	ctx := t.Context()
	_, rec := follow(t, r)
	r.client.Load().Set(ctx, "poll:lease:s", "me", time.Minute)
	r.halt(ctx)
	eventually(t, "the tap did not notice the end of Redis", func() bool { return count(collect(t, rec), history.TapDown) == 1 })
	err := r.resume(ctx)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tap did not come back", func() bool { return count(collect(t, rec), history.TapUp) == 2 })
	snapshot := func(e history.Event) bool { return e.Reason == "snapshot" && e.Session == "s" && e.Instance == "me" }
	eventually(t, "the lease that survived is not in the second snapshot", func() bool {
		return count(collect(t, rec), history.RedisGranted, snapshot) == 1
	})
}

// A Redis without a replication stream does not prevent a run.
func TestStreamRefused(t *testing.T) {
	t.Parallel()
	r := provision(t)
	if err := r.client.Load().Do(t.Context(), "ACL", "SETUSER", harnessUser, "-psync").Err(); err != nil {
		t.Fatal(err)
	}
	rec := history.NewRecorder()
	s := stream.Open(r.streamed(), &systems[systemPolling].Keys, host.NewClock(), rec.Add)
	err := s.Wait(t.Context())
	s.Close()
	if err == nil || !strings.Contains(err.Error(), "no replication stream") || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("stream: %v, want Redis' own reason why there is none", err)
	}
	out, _ := storm(t, r, config(t, fault.Fault{Kind: fault.ScriptFlush}))
	if out.Tap || !strings.Contains(strings.Join(out.Notes, "\n"), "is not seen") {
		t.Errorf("outcome %+v: want no stream, and a note", out)
	}
}
