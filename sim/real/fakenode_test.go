package real

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/sim/protocol"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

// fakeNode is a small node: it acquires free leases, renews, polls, and releases on a stop signal. REAL_TEST_NODE makes it misbehave.
func fakeNode() int {
	f := &fake{
		id:     fmt.Sprintf("%s-%d-%d", os.Getenv("LEASESTORM_NODE"), host.Monotonic(), os.Getpid()), // PIDs repeat in containers
		target: os.Getenv("LEASESTORM_TARGET_URL"),
		owned:  map[string]int64{},
		stop:   make(chan os.Signal, 1),
	}
	f.born = host.Monotonic()
	signal.Notify(f.stop, syscall.SIGTERM)
	pause := make(chan os.Signal, 1)
	signal.Notify(pause, syscall.SIGUSR1)
	go func() {
		for range pause {
			f.mu.Lock()
			f.armed = true
			f.mu.Unlock()
		}
	}()
	switch os.Getenv("REAL_TEST_NODE") {
	case "exits":
		fmt.Fprintln(os.Stderr, "no configuration found")
		return 7
	case "silent":
		<-f.stop
		return 0
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		f.say("ready", "", 0, 0)
		select {}
	case "hog":
		f.say("ready", "", 0, 0)
		for all := [][]byte{}; ; <-time.After(time.Millisecond) {
			all = append(all, bytes.Repeat([]byte{1}, 1<<20))
		}
	case "names itself anew":
		f.say("ready", "", 0, 0)
		f.id += "-other"
		f.say("stopped", "", 0, 0)
		<-f.stop
		return 0
	case "is its slot":
		f.id = os.Getenv("LEASESTORM_NODE")
	case "is its host":
		f.id = "host"
	case "drops":
		f.say("ready", "", 0, 0)
		_, _ = os.Stdout.WriteString(droppedLines)
		<-f.stop
		return 0
	case "drops its last words":
		f.say("ready", "", 0, 0)
		<-f.stop
		_, _ = os.Stdout.WriteString(droppedLines)
		return 0
	case "endless":
		f.say("ready", "", 0, 0)
		line := bytes.Repeat([]byte("x"), 1<<20)
		for range 100 {
			_, _ = os.Stdout.Write(line)
		}
		_, _ = os.Stdout.WriteString("\nnot json\n{\"event\":\"danced\",\"reason\":\"a waltz\"}\n")
		<-f.stop
		return 0
	}
	return f.run()
}

const droppedLines = `{"event":"dropped","lines":7}` + "\n"

type fake struct {
	id, target string
	ttl        time.Duration
	client     *redis.Client
	stop       chan os.Signal

	mu    sync.Mutex
	owned map[string]int64
	armed bool

	born int64 // CLOCK_MONOTONIC
}

func (f *fake) say(event, session string, fence int64, until time.Duration) {
	now := host.Monotonic()
	if event == "paused" && os.Getenv("REAL_TEST_NODE") == "has always been paused" {
		now = f.born
	}
	m := map[string]any{"event": event, "instance": f.id, "t": now}
	if session != "" {
		m["session"], m["fence"] = session, fence
	}
	if until > 0 {
		m["until"] = now + int64(until)
	}
	line, _ := json.Marshal(m)
	_, _ = os.Stdout.Write(append(line, '\n'))
}

func envMS(key string) time.Duration {
	n, err := strconv.Atoi(os.Getenv(key))
	if err != nil {
		panic(key + ": " + err.Error())
	}
	return time.Duration(n) * time.Millisecond
}

// exits returns the exit code of a node that joins a run later, or 0.
func (f *fake) exits() int {
	mode := os.Getenv("REAL_TEST_NODE")
	if os.Getenv("LEASESTORM_NODE") != "node-3" || mode == "" {
		return 0
	}
	err := f.client.Set(context.Background(), "poll:node:"+f.id, 1, time.Second).Err()
	if mode == "turned away" && err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, mode, err)
	if mode == "crashes" {
		return 2
	}
	return protocol.ExitTurnedAway
}

func (f *fake) run() int {
	opts, err := redis.ParseURL(os.Getenv("LEASESTORM_REDIS_URL"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	opts.MaxRetries = -1
	opts.ContextTimeoutEnabled = true
	f.client = redis.NewClient(opts)
	if code := f.exits(); code != 0 {
		return code
	}
	f.ttl = envMS("LEASESTORM_TTL_MS")
	renew, poll := time.NewTicker(envMS("LEASESTORM_RENEW_MS")), time.NewTicker(envMS("LEASESTORM_POLL_MS"))
	f.say("ready", "", 0, 0)
	f.look()
	for {
		select {
		case <-f.stop:
			for session, fence := range f.owned {
				f.client.Eval(context.Background(), fakeRelease, []string{"poll:lease:" + session}, f.id)
				f.say("released", session, fence, 0)
			}
			f.say("stopped", "", 0, 0)
			return 0
		case <-renew.C:
			f.renew()
			f.look()
		case <-poll.C:
			for session, fence := range f.owned {
				f.poll(session, fence)
			}
		}
	}
}

const (
	fakeRenew = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`
	fakeRelease = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
)

func (f *fake) look() {
	ctx, cancel := context.WithTimeout(context.Background(), f.ttl/5)
	defer cancel()
	f.client.Set(ctx, "poll:node:"+f.id, 1, f.ttl)
	keys, _ := f.client.Keys(ctx, "session:*").Result()
	for _, k := range keys {
		session := strings.TrimPrefix(k, "session:")
		if _, mine := f.owned[session]; mine {
			continue
		}
		start := time.Now()
		if ok, err := f.client.SetNX(ctx, "poll:lease:"+session, f.id, f.ttl).Result(); err != nil || !ok {
			continue
		}
		fence, err := f.client.Incr(ctx, "{poll:lease:"+session+"}:fence").Result()
		if err != nil {
			continue
		}
		f.owned[session] = fence
		f.say("acquired", session, fence, f.ttl-time.Since(start)-10*time.Millisecond)
	}
}

func (f *fake) renew() {
	for session, fence := range f.owned {
		ctx, cancel := context.WithTimeout(context.Background(), f.ttl/5)
		start := time.Now()
		f.say("renewStart", session, fence, 0)
		n, err := f.client.Eval(ctx, fakeRenew, []string{"poll:lease:" + session}, f.id, f.ttl.Milliseconds()).Int()
		cancel()
		if err != nil || n != 1 {
			delete(f.owned, session)
			f.say("lost", session, fence, 0)
			continue
		}
		f.say("renewed", session, fence, f.ttl-time.Since(start)-10*time.Millisecond)
	}
}

func (f *fake) poll(session string, fence int64) {
	f.say("pollStart", session, fence, 0)
	f.mu.Lock()
	armed := f.armed
	f.armed = false
	f.mu.Unlock()
	if armed {
		f.say("paused", session, fence, 0)
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		<-time.After(50 * time.Millisecond) // the stop may reach this thread a moment later
	}
	req, _ := http.NewRequest(http.MethodPost, f.target+"/poll/"+session, nil)
	req.Header.Set("X-Instance", f.id)
	req.Header.Set("X-Fence", strconv.FormatInt(fence, 10))
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
	}
	f.say("pollEnd", session, fence, 0)
}
