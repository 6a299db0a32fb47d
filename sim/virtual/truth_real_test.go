package virtual

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease/redisstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// realSide is the production store on a real Redis.
type realSide struct {
	t      *testing.T
	srv    *redistest.Server
	client *goredis.Client
	store  *redisstore.Store
	ears   *goredis.PubSub
	asked  int
}

func newRealSide(t *testing.T) *realSide {
	srv := redistest.Start(t)
	client := srv.Client()
	store, err := redisstore.New(client, redisstore.Options{Quarantine: quarantineMs * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	x := &realSide{t: t, srv: srv, client: client, store: store}
	t.Cleanup(func() { _, _ = x.ears.Close(), store.Close() })
	x.listen()
	return x
}

func (x *realSide) listen() {
	x.ears = x.client.Subscribe(x.t.Context(), redisstore.ChannelDefault)
	if _, err := x.ears.Receive(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
}

func (x *realSide) do(_ int64, op *core.Op, sessions *core.Sessions) core.Answer {
	if op.Kind == core.OpLook {
		return x.store.Look(x.t.Context(), op, sessions)
	}
	return x.store.Do(x.t.Context(), op)
}

// timed runs a command and tells the time at which Redis ran it.
var timed = goredis.NewScript(`
local time, got = redis.call('TIME'), redis.pcall(unpack(ARGV))
local now, refused = time[1] * 1000000 + time[2], type(got) == 'table' and got.err
if refused then return {now, refused} end
return {now, '', got}`)

func (x *realSide) command(_ int64, args ...string) (int64, reply) {
	words := make([]any, len(args))
	for i, arg := range args {
		words[i] = arg
	}
	got, err := timed.Run(x.t.Context(), x.client, nil, words...).Slice()
	if err != nil {
		x.t.Fatal(args, err)
	}
	if text := got[1].(string); text != "" {
		return got[0].(int64), refusal(text)
	}
	return got[0].(int64), like(got[2])
}

// like is a reply of go-redis as the model gives it.
func like(v any) reply {
	switch v := v.(type) {
	case []any:
		out := make([]reply, len(v))
		for i := range v {
			out[i] = like(v[i])
		}
		return out
	case string:
		if v == "OK" {
			return status(v)
		}
	}
	return v
}

func (x *realSide) spoil(name string) {
	x.srv.Do("DEL", name)
	x.srv.Do("RPUSH", name, "not", "ours")
}

func (x *realSide) restart(_ string, empty bool) string {
	if !empty {
		x.srv.Do("SAVE")
	}
	_ = x.ears.Close()
	x.srv.Restart(empty)
	return x.ready()
}

// ready waits until every connection is one to the server that runs now, and returns its run.
func (x *realSide) ready() string {
	ctx, cancel := context.WithTimeout(x.t.Context(), 10*time.Second)
	defer cancel()
	for {
		info, err := x.client.Info(ctx, "server").Result()
		_, known := x.store.Check(ctx)
		if err == nil && known == nil {
			x.listen()
			_, rest, _ := strings.Cut(info, "run_id:")
			run, _, _ := strings.Cut(rest, "\r")
			return run
		}
		if ctx.Err() != nil {
			x.t.Fatal("the server did not come back:", err, known)
		}
	}
}

func (x *realSide) forget() { x.srv.Do("SCRIPT", "FLUSH") }

func (x *realSide) readOnly(on bool) {
	if on {
		x.srv.ReadOnly()
	} else {
		x.srv.Writable()
	}
}

func (x *realSide) full(on bool) { x.srv.Do("CONFIG", "SET", "maxmemory", oneIf(on)) }

// notices asks for a message of its own, before which all others come.
func (x *realSide) notices() []core.Notice {
	x.asked++
	last := fmt.Sprint("last ", x.asked)
	if err := x.client.Publish(x.t.Context(), redisstore.ChannelDefault, last).Err(); err != nil {
		x.t.Fatal(err)
	}
	var out []core.Notice
	for {
		m, err := x.ears.ReceiveMessage(x.t.Context())
		if err != nil {
			x.t.Fatal(err)
		}
		if m.Payload == last {
			return out
		}
		if n, ok := redisstore.ParseNotice(m.Payload); ok {
			out = append(out, n)
		}
	}
}

// shown reads all keys at one instant: kind, value, end (ms, negative for none). PEXPIRETIME came with Redis 7.0.
var shown = goredis.NewScript(`
local time, out = redis.call('TIME'), {}
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i, key in ipairs(KEYS) do
  local kind, left = redis.call('TYPE', key).ok, redis.call('PTTL', key)
  local at = redis.pcall('PEXPIRETIME', key)
  if type(at) ~= 'number' then at = left < 0 and left or now + left end
  out[i] = {kind, kind == 'string' and redis.call('GET', key) or '', at}
end
return out`)

func (x *realSide) keys(int64) map[string]value {
	got, err := shown.Run(x.t.Context(), x.client, universe).Slice()
	if err != nil {
		x.t.Fatal(err)
	}
	keys := map[string]value{}
	for i, name := range universe {
		row := got[i].([]any)
		v := value{there: row[0] != "none", foreign: row[0] == "list" || row[0] == "hash", text: row[1].(string), expire: row[2].(int64)}
		if v.expire < 0 {
			v.expire = forever
		}
		if v.there {
			keys[name] = v
		}
	}
	return keys
}

func (x *realSide) now() int64 {
	at, err := x.client.Time(x.t.Context()).Result()
	if err != nil {
		x.t.Fatal(err)
	}
	return at.UnixMicro()
}

// pause waits on the timer of Redis, by a command that a read-only one allows.
func (x *realSide) pause() { x.srv.Do("XREAD", "BLOCK", 5, "STREAMS", "nothing", "$") }

// The model, with the scripts' twins and with the scripts, does what a real Redis with the production store does: the
// same answers, notices and keys after every step of any sequence.
func TestModelIsLikeRedis(t *testing.T) {
	x := newRealSide(t)
	clean := func() *comparison {
		twins, scripts := newModelSide(false), newModelSide(true)
		x.readOnly(false)
		x.full(false)
		x.srv.Flush()
		x.notices()
		run := x.ready()
		twins.restart(run, true)
		scripts.restart(run, true)
		return &comparison{clock: x.now, pause: x.pause, sides: []side{x, twins, scripts}, names: []string{"redis", "twins", "scripts"}}
	}
	rapid.Check(t, func(r *rapid.T) {
		steps := drawSteps().Draw(r, "steps")
		diff := clean().play(steps)
		for range 2 { // what a slow machine brought about does not come again and again
			if diff != "" {
				diff = clean().play(steps)
			}
		}
		if diff != "" {
			r.Fatal(diff)
		}
	})
}
