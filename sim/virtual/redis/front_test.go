package redis

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

func eachProtocol(t *testing.T, f func(t *testing.T, w *wired, client *goredis.Client)) {
	for _, protocol := range []int{2, 3} {
		t.Run("RESP"+strconv.Itoa(protocol), func(t *testing.T) {
			w := newWired(guestServer())
			f(t, w, w.client(t, protocol))
		})
	}
}

// go-redis finds a server that behaves like Redis.
func TestGoRedisCommands(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *wired, client *goredis.Client) {
		ctx := t.Context()
		if ok, err := client.SetNX(ctx, "lock", "me", time.Second).Result(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if ok, err := client.SetNX(ctx, "lock", "you", time.Second).Result(); ok || err != nil {
			t.Fatal(ok, err)
		}
		if got := client.PTTL(ctx, "lock").Val(); got <= 0 || got > time.Second {
			t.Errorf("PTTL %v", got)
		}
		w.advance(time.Second + time.Millisecond)
		if err := client.Get(ctx, "lock").Err(); !errors.Is(err, goredis.Nil) {
			t.Errorf("an expired lock: %v", err)
		}
		script := goredis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return {1, 'x', false}`)
		got, err := script.Run(ctx, client, []string{"lock"}, "me").Slice()
		if err != nil || !slices.Equal(got, []any{int64(1), "x", nil}) {
			t.Errorf("a script: %v %v", got, err)
		}
		cmds, err := client.TxPipelined(ctx, func(p goredis.Pipeliner) error {
			p.Set(ctx, "a", 1, 0)
			p.IncrBy(ctx, "a", 41)
			return nil
		})
		if err != nil || cmds[1].(*goredis.IntCmd).Val() != 42 {
			t.Errorf("a transaction: %v %v", cmds, err)
		}
		err = client.Watch(ctx, func(tx *goredis.Tx) error {
			client.Incr(ctx, "a")
			_, err := tx.TxPipelined(ctx, func(p goredis.Pipeliner) error { return p.Set(ctx, "a", 0, 0).Err() })
			return err
		}, "a")
		if !errors.Is(err, goredis.TxFailedErr) {
			t.Errorf("a watched key changed: %v", err)
		}
		if err := client.Do(ctx, "NO-SUCH", "a").Err(); err == nil || !strings.HasPrefix(err.Error(), "ERR unknown command 'NO-SUCH', with args") {
			t.Errorf("an unknown command: %v", err)
		}
	})
}

func TestGoRedisSubscribes(t *testing.T) {
	eachProtocol(t, func(t *testing.T, _ *wired, client *goredis.Client) {
		ctx := t.Context()
		ears := client.PSubscribe(ctx, "news.*")
		defer ears.Close()
		if _, err := ears.Receive(ctx); err != nil {
			t.Fatal(err)
		}
		if n, err := client.Publish(ctx, "news.today", "rain").Result(); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		m, err := ears.ReceiveMessage(ctx)
		if err != nil || m.Channel != "news.today" || m.Payload != "rain" || m.Pattern != "news.*" {
			t.Errorf("%v %v", m, err)
		}
	})
}

// A command may arrive in pieces, and a wrong one is the last.
func TestFrontParses(t *testing.T) {
	long := strings.Repeat("x", inlineMax+1)
	for _, c := range []struct{ sent, commands, reply string }{
		{sent: "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", commands: "GET,k"},
		{sent: "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n", commands: "PING PING"},
		{sent: "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", commands: "ECHO,"},
		{sent: "*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\r\n\r\n", commands: "ECHO,\r\n\r\n"},
		{sent: "*0\r\n*-1\r\n\r\nGET k\r\n", commands: "GET,k"},
		{sent: "*2\r\n$3\r\nGET\r\n$1\r\n"},
		{sent: "*x\r\n", reply: "invalid multibulk length"},
		{sent: "*2000000\r\n", reply: "invalid multibulk length"},
		{sent: "*1\r\nGET\r\n", reply: "expected '$', got 'G'"},
		{sent: "*1\r\n$-1\r\n", reply: "invalid bulk length"},
		{sent: "*1\r\n$99999999999\r\n", reply: "invalid bulk length"},
		{sent: "*1\r\n$4\r\nPING\r\n*x\r\n", commands: "PING", reply: "invalid multibulk length"},
		{sent: long, reply: "too big inline request"},
		{sent: "*1\r\n" + long, reply: "too big bulk count string"},
	} {
		for _, piece := range []int{1, 7, len(c.sent)} {
			f := guestServer().Connect(nil)
			var got []string
			var last []byte
			for p := range slices.Chunk([]byte(c.sent), piece) {
				commands, reply := f.Commands(p)
				for _, args := range commands {
					got = append(got, strings.Join(args, ","))
				}
				if last = reply; f.Closes() {
					break
				}
			}
			want := ""
			if c.reply != "" {
				want = "-ERR Protocol error: " + c.reply + "\r\n"
			}
			if strings.Join(got, " ") != c.commands || string(last) != want || f.Closes() != (c.reply != "") {
				t.Errorf("%.40q by %d bytes: %q, %q", c.sent, piece, got, last)
			}
		}
	}
}

// A read that waits for an entry gets it, or null once its time is over.
func TestFrontWaits(t *testing.T) {
	r := guestServer()
	reader, writer := r.Connect(nil), r.Connect(nil)
	ask := func(f *Front, command string) (string, *WaitFor) {
		out, wait := f.Execute(1, strings.Fields(command))
		return string(out), wait
	}
	ask(writer, "XGROUP CREATE x g 0 MKSTREAM")
	const read = "XREADGROUP GROUP g c COUNT 1 BLOCK 5000 STREAMS x >"
	if out, wait := ask(reader, read); out != "" || wait == nil || *wait != (WaitFor{Key: "x", Block: 5000}) {
		t.Fatalf("%q %v", out, wait)
	}
	if got := string(reader.Resume(nil)); got != "*-1\r\n" {
		t.Errorf("after its time %q", got)
	}
	ask(reader, read)
	ask(writer, "XADD x * f v")
	if fed := r.TakeFed(); !slices.Equal(fed, []string{"x"}) {
		t.Errorf("fed %q", fed)
	}
	if out, wait := reader.Execute(2, strings.Fields(read)); wait != nil || !strings.HasPrefix(string(out), "*1\r\n*2\r\n$1\r\nx\r\n*1\r\n") {
		t.Errorf("%q %v", out, wait)
	}
	if out, wait := ask(reader, "WAIT 2 100"); out != "" || wait == nil || *wait != (WaitFor{Replicas: 2, Block: 100}) {
		t.Fatalf("%q %v", out, wait)
	}
	if none, got := string(reader.Resume(nil)), string(reader.Resume(int64(1))); none != ":0\r\n" || got != ":1\r\n" {
		t.Errorf("%q, %q", none, got)
	}
	if _, wait := ask(reader, "WAIT 1 0"); wait == nil || wait.Block != endless {
		t.Errorf("without a limit %v", wait)
	}
}

// An expired key is invalidated without a command.
func TestSweepInvalidates(t *testing.T) {
	r, pushed := guestServer(), ""
	f := r.Connect(func(p []byte) { pushed += string(p) })
	for _, command := range []string{"HELLO 3", "CLIENT TRACKING ON", "SET k v PX 10", "GET k"} {
		f.Execute(1, strings.Fields(command))
	}
	r.Sweep(int64(10 * time.Millisecond))
	if pushed != "" {
		t.Errorf("pushed %q early", pushed)
	}
	r.Sweep(int64(12 * time.Millisecond))
	if pushed != ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n" {
		t.Errorf("pushed %q", pushed)
	}
}

// A guest may put a prefix before a lease's ID. A key of an unknown lease is an ordinary key, which adds no lease.
func TestKeysOfGuests(t *testing.T) {
	r := guestServer()
	f := r.Connect(nil)
	x := r.Lease("x")
	for _, c := range []struct{ command, reply string }{
		{"SET poll:lease:0:x me NX PX 1000", "+OK\r\n"},
		{"GET poll:lease:0:x", "$2\r\nme\r\n"},
		{"SET poll:lease:1:x you NX", "+OK\r\n"},
		{"SET poll:lease:probe v", "+OK\r\n"},
		{"HSET poll:lease:hash f v", ":1\r\n"},
		{"DBSIZE", ":4\r\n"},
		{"KEYS poll:lease:?:x", "*2\r\n$14\r\npoll:lease:0:x\r\n$14\r\npoll:lease:1:x\r\n"},
		{"EXPIRE poll:epoch 10", ":0\r\n"},
	} {
		if out, _ := f.Execute(1, strings.Fields(c.command)); string(out) != c.reply {
			t.Errorf("%s: %q, want %q", c.command, out, c.reply)
		}
	}
	if owner := r.leases[x].owner; owner != "me" || len(r.leases) != 1 {
		t.Errorf("the lease has %q, of %d leases", owner, len(r.leases))
	}
}

// A client hears the same of a script's twin as of the script.
func TestTwinsPublishAsTheScriptsDo(t *testing.T) {
	var heard [2]string
	for i, lua := range []bool{false, true} {
		r := New(Config{Options: redisstore.Options{Quarantine: time.Second}, Wrote: deaf, Publish: func(core.Notice) {}, Lua: lua}, nil)
		r.Clock.Wall = epochNs
		f := r.Connect(func(p []byte) { heard[i] += string(p) })
		f.Execute(1, []string{"SUBSCRIBE", r.Config.Channel})
		r.Bootstrap()
		for _, op := range []core.Op{
			{Kind: core.OpAcquire, Items: []core.Item{{ID: "x"}, {ID: "y"}}},
			{Kind: core.OpBeat},
			{Kind: core.OpAsk, Items: []core.Item{{ID: "x", Peer: "b"}, {ID: "y", Peer: "b"}}},
			{Kind: core.OpRelease, Items: []core.Item{{ID: "x"}, {ID: "y", Peer: "b"}}},
			{Kind: core.OpLeave},
		} {
			op.Owner, op.Epoch, op.TTL = "a", r.Epoch, 10*core.Second
			for n := range op.Items {
				op.Items[n].Fence = r.leases[r.Lease(op.Items[n].ID)].fence
			}
			var a core.Answer
			if r.Do(2, &op, &a); a.Failure != core.FailNone {
				t.Fatal(a.Text)
			}
		}
	}
	if heard[0] != heard[1] || strings.Count(heard[0], "message") != 9 {
		t.Errorf("twins:\n%q\nscripts:\n%q", heard[0], heard[1])
	}
}
