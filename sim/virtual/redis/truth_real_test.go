package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/sim/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// realSide is the production store on a real Redis.
type realSide struct {
	t      *testing.T
	srv    *redistest.Server
	client *goredis.Client // of a user that may do all
	nodes  *goredis.Client // of the one from whom an ACL takes something
	store  *redisstore.Store
	set    map[string]bool // what it refuses
	ears   *goredis.PubSub
	asked  int
}

func newRealSide(t *testing.T) *realSide {
	srv := redistest.Start(t)
	admit(srv)
	client, nodes := srv.Client(), goredis.NewClient(&goredis.Options{
		Addr: srv.Addr(), Username: nodesUser, Password: "any", ContextTimeoutEnabled: true, MaxRetries: -1,
	})
	store, err := redisstore.New(nodes, redisstore.Options{Quarantine: quarantineMs * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	x := &realSide{t: t, srv: srv, client: client, nodes: nodes, store: store, set: map[string]bool{}}
	t.Cleanup(func() { _, _, _ = x.ears.Close(), store.Close(), nodes.Close() })
	x.listen()
	return x
}

const nodesUser = "nodes"

// admit makes the user of the store and gives it every right.
func admit(srv *redistest.Server) {
	srv.Do("ACL", "SETUSER", nodesUser, "reset", "on", "nopass", "~*", "&*", "+@all")
}

func (x *realSide) listen() {
	x.ears = x.client.Subscribe(x.t.Context(), redisstore.DefaultChannel)
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

func (x *realSide) command(_ int64, args ...string) (int64, Reply) {
	words := make([]any, len(args))
	for i, arg := range args {
		words[i] = arg
	}
	got, err := timed.Run(x.t.Context(), x.nodes, nil, words...).Slice()
	if err != nil {
		x.t.Fatal(args, err)
	}
	if text := got[1].(string); text != "" {
		return got[0].(int64), Refusal(text)
	}
	return got[0].(int64), like(got[2])
}

// like is a reply of go-redis as the model gives it.
func like(v any) Reply {
	switch v := v.(type) {
	case []any:
		out := make([]Reply, len(v))
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
	clear(x.set)
	admit(x.srv)
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

func (x *realSide) refuse(what string, on bool) {
	if x.set[what] == on {
		return
	}
	x.set[what] = on
	switch what {
	case "read-only":
		if on {
			x.srv.ReadOnly()
		} else {
			x.srv.Writable()
		}
	case "full":
		x.srv.Do("CONFIG", "SET", "maxmemory", oneIf(on))
	case "lonely":
		x.srv.Do("CONFIG", "SET", "min-replicas-to-write", oneIf(on))
	case "unsaved":
		if on {
			x.failToSave()
		}
		x.srv.Do("CONFIG", "SET", "save", map[bool]string{true: "31536000 1"}[on])
	default:
		x.permit()
	}
}

// permit gives the store's user what it may do now.
func (x *realSide) permit() {
	admit(x.srv)
	rule := []any{"ACL", "SETUSER", nodesUser}
	if x.set[fault.DenySet] {
		rule = append(rule, "-set")
	}
	if x.set[fault.DenyFences] || x.set[fault.DenyLeases] {
		rule = append(rule, "resetkeys", "~elsewhere", "~hash", "~stream", "~poll:epoch*", "~poll:node:*")
		if !x.set[fault.DenyFences] {
			rule = append(rule, "~{poll:lease:*")
		}
		if !x.set[fault.DenyLeases] {
			rule = append(rule, "~poll:lease:*")
		}
	}
	x.srv.Do(rule...)
}

// failToSave has the server save its data where a folder stands in the way.
func (x *realSide) failToSave() {
	dir := x.srv.Do("CONFIG", "GET", "dir").(map[any]any)["dir"].(string)
	file := filepath.Join(dir, "dump.rdb")
	_ = os.Remove(file)
	if err := os.Mkdir(file, 0o700); err != nil {
		x.t.Fatal(err)
	}
	x.srv.Do("BGSAVE")
	for {
		info := x.srv.Do("INFO", "persistence").(string)
		if strings.Contains(info, "rdb_bgsave_in_progress:0") && strings.Contains(info, "rdb_last_bgsave_status:err") {
			break
		}
		x.pause()
	}
	if err := os.Remove(file); err != nil {
		x.t.Fatal(err)
	}
}

// notices asks for a message of its own, before which all others come.
func (x *realSide) notices() []core.Notice {
	x.asked++
	last := fmt.Sprint("last ", x.asked)
	if err := x.client.Publish(x.t.Context(), redisstore.DefaultChannel, last).Err(); err != nil {
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
			v.expire = Forever
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
	clean := func() *comparison { return against(x) }
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

// against compares both models with a real Redis that is empty and refuses nothing.
func against(x *realSide) *comparison {
	twins, scripts := newModelSide(false), newModelSide(true)
	acceptAll(x)
	x.srv.Flush()
	x.notices()
	run := x.ready()
	twins.restart(run, true)
	scripts.restart(run, true)
	return &comparison{clock: x.now, pause: x.pause, sides: []side{x, twins, scripts}, names: []string{"redis", "twins", "scripts"}}
}

// Each refusal meets every script at the command at which it meets it in a real Redis, in the same words, and what the script did
// before stays.
func TestRefusalsAreLikeRedis(t *testing.T) {
	x := newRealSide(t)
	for i, what := range refusing {
		c := against(x)
		held, all := []int{0}, []int{0, 1}
		if diff := c.play([]step{
			{kind: "observe"}, {kind: "bootstrap"}, {kind: "observe"}, // whose answers say the epoch
			{kind: "acquire", items: held},
			{kind: "refuse", n: i - 2},
		}); diff != "" {
			t.Fatalf("%s: %s", what, diff)
		}
		before := x.keys(0)
		adopts := []step{
			{kind: "renew", items: held, life: 1},
			{kind: "acquire", items: held, life: 2, n: 1}, // first PEXPIRE, then SET
		}
		if diff := c.play(adopts); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		lease, fence := leaseKeyOf(leaseIDs[0]), fenceKeyOf(leaseIDs[0])
		extended := x.keys(0)[lease].expire > before[lease].expire+15_000
		fenced := x.keys(0)[fence].text != before[fence].text
		if half := extended && !fenced; half != (what == fault.DenySet) {
			t.Errorf("%s: extended %v, fenced %v: where SET alone is denied, and nowhere else, an adoption is half done", what, extended, fenced)
		}
		if diff := c.play([]step{
			{kind: "acquire", items: []int{1}},
			{kind: "beat"}, {kind: "release", items: held}, {kind: "reassert", items: held}, {kind: "leave"},
			{kind: "observe", items: all}, {kind: "nodes", items: all}, {kind: "look"}, {kind: "ask", items: held},
			{kind: "set epoch", n: -2}, {kind: "renew", items: held}, // to begin an epoch is a write, too
			{kind: "accept"}, {kind: "bootstrap"}, {kind: "observe"}, {kind: "acquire", items: all},
		}); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}

// What a client sends without a script is refused in other words, and in another order where there are several reasons.
func TestRefusedCommandsAreLikeRedis(t *testing.T) {
	x, m := newRealSide(t), newModelSide(false)
	commands := []string{
		"GET poll:lease:x", "MGET elsewhere {poll:lease:x}:fence", "SET elsewhere 1", "SET poll:lease:x 1", "DEL elsewhere",
		"PEXPIRE poll:node:a 1000", "HSET hash f v", "HGET hash f", "XGROUP CREATE stream g 0 MKSTREAM",
		"XGROUP DELCONSUMER stream g c", "PUBLISH elsewhere 1",
	}
	why := func(err error) string {
		if err == nil || errors.Is(err, goredis.Nil) || strings.HasPrefix(err.Error(), "BUSYGROUP") {
			return ""
		}
		return err.Error()
	}
	x.srv.Do("XGROUP", "CREATE", "stream", "g", "0", "MKSTREAM")
	m.r.Obey(0, []string{"XGROUP", "CREATE", "stream", "g", "0", "MKSTREAM"})
	for i, first := range refusing {
		for _, second := range refusing[i:] {
			for _, on := range []bool{true, false} {
				for _, s := range []side{x, m} {
					s.refuse(first, on)
					s.refuse(second, on)
				}
				for _, command := range commands {
					words := strings.Fields(command)
					args := make([]any, len(words))
					for i := range words {
						args[i] = words[i]
					}
					want, got := why(x.nodes.Do(t.Context(), args...).Err()), ""
					if no, refused := m.r.Obey(0, words).(Refusal); refused {
						got = why(no)
					}
					if got != want {
						t.Errorf("%s with %s and %s (%v): %q, want %q", command, first, second, on, got, want)
					}
				}
			}
		}
	}
}
