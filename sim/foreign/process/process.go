// Package process runs a foreign.Machine as a node of the real engine. It speaks the node protocol (docs/node-protocol.md) and sends
// plain Redis commands.
package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/sim/foreign"
)

// Member is a machine's identity and configuration, from the node protocol's variables.
type Member struct {
	Instance        string
	LeaderKey       string
	HeartbeatPrefix string
	TTL             time.Duration
	Election        time.Duration // interval of election cycles
	Heartbeat       time.Duration
	StartDelay      time.Duration // random, up to LEASESTORM_START_DELAY_MS
}

// Main runs the machine until SIGTERM or SIGINT. It returns the exit code: 0, or 3 for a wrong environment.
func Main(build func(Member) foreign.Machine) int {
	n, err := newNode()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	defer n.client.Close()
	n.run(build(n.Member))
	return 0
}

// node is the process. One goroutine steps the machine. Each command, and the leader's writes, have their own goroutines.
type node struct {
	Member
	client  *redis.Client
	target  *url.URL
	http    *http.Client
	poll    time.Duration // interval of the leader's writes
	patient time.Duration // timeout of one write
	replies chan foreign.Reply
	pause   atomic.Bool
	end     context.CancelFunc // ends the leader's writes; nil: it has never led
}

func newNode() (*node, error) {
	opt, err := redis.ParseURL(os.Getenv("LEASESTORM_REDIS_URL"))
	if err != nil {
		return nil, fmt.Errorf("LEASESTORM_REDIS_URL: %w", err)
	}
	target, err := url.Parse(os.Getenv("LEASESTORM_TARGET_URL"))
	if err != nil {
		return nil, fmt.Errorf("LEASESTORM_TARGET_URL: %w", err)
	}
	var bad error
	ms := func(key string) time.Duration {
		v, err := strconv.ParseInt(os.Getenv(key), 10, 64)
		if err != nil || v < 0 {
			bad = errors.Join(bad, fmt.Errorf("%s is %q: milliseconds are needed", key, os.Getenv(key)))
		}
		return time.Duration(v) * time.Millisecond
	}
	n := &node{
		Member: Member{
			Instance: lease.GenerateInstanceID(), LeaderKey: os.Getenv("LEASESTORM_LEADER_KEY"),
			HeartbeatPrefix: os.Getenv("LEASESTORM_HEARTBEAT_PREFIX"), TTL: ms("LEASESTORM_TTL_MS"),
			Election: ms("LEASESTORM_ELECTION_MS"), Heartbeat: ms("LEASESTORM_HEARTBEAT_MS"),
		},
		target: target, http: &http.Client{}, poll: ms("LEASESTORM_POLL_MS"), patient: ms("LEASESTORM_POLL_TIMEOUT_MS"),
		replies: make(chan foreign.Reply, 64),
	}
	if delay := ms("LEASESTORM_START_DELAY_MS"); delay > 0 {
		n.StartDelay = rand.N(delay)
	}
	if bad != nil {
		return nil, bad
	}
	opt.MaxRetries, opt.ContextTimeoutEnabled, opt.DisableIdentity = -1, true, true
	n.client = redis.NewClient(opt)
	return n, nil
}

func (n *node) run(m foreign.Machine) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	begin := time.Now()
	n.say(foreign.Word{Event: "ready"})
	for in := (foreign.Input{}); ; {
		in.Wall = time.Now()
		in.Now = in.Wall.Sub(begin)
		eff := m.Step(in)
		for _, w := range eff.Words {
			n.obey(w)
		}
		for _, c := range eff.Commands {
			go n.command(c)
		}
		if eff.Exit {
			n.say(foreign.Word{Event: "stopped"})
			return
		}
		in = n.wait(m, begin, signals)
	}
}

func (n *node) wait(m foreign.Machine, begin time.Time, signals <-chan os.Signal) foreign.Input {
	var due <-chan time.Time
	if at, ok := m.Next(); ok {
		timer := time.NewTimer(time.Until(begin.Add(at)))
		defer timer.Stop()
		due = timer.C
	}
	for {
		select {
		case r := <-n.replies:
			return foreign.Input{Reply: &r}
		case <-due:
			return foreign.Input{}
		case s := <-signals:
			if s != syscall.SIGUSR1 {
				return foreign.Input{Stop: true}
			}
			n.pause.Store(true)
		}
	}
}

func (n *node) command(c foreign.Command) {
	ctx, cancel := context.WithTimeout(context.Background(), n.TTL/10)
	defer cancel()
	args := make([]any, len(c.Args))
	for i, a := range c.Args {
		args[i] = a
	}
	v, err := n.client.Do(ctx, args...).Result()
	r := foreign.Reply{Seq: c.Seq, Value: v}
	if err != nil && !errors.Is(err, redis.Nil) {
		r.Err = err.Error()
	}
	n.replies <- r
}

// obey reports an event. "acquired" starts the leader's writes, "lost" and "released" end them.
func (n *node) obey(w foreign.Word) {
	switch w.Event {
	case "lost", "released":
		if n.end != nil {
			n.end()
		}
		n.say(w)
	case "acquired":
		n.say(w)
		var ctx context.Context
		ctx, n.end = context.WithCancel(context.Background())
		go n.lead(ctx)
	default:
		n.say(w)
	}
}

// lead writes to the resource at once and then at every poll interval, until ctx ends.
func (n *node) lead(ctx context.Context) {
	tick := time.NewTicker(n.poll)
	defer tick.Stop()
	for {
		n.write(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (n *node) write(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	n.say(foreign.Word{Event: "pollStart"})
	if n.pause.CompareAndSwap(true, false) {
		n.say(foreign.Word{Event: "paused"})
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		<-time.After(50 * time.Millisecond) // the stop may reach this thread a moment later
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, n.patient)
	defer cancel()
	why := ""
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.target.JoinPath("poll", n.LeaderKey).String(), nil)
	if err == nil {
		req.Header.Set("X-Instance", n.Instance)
		var resp *http.Response
		if resp, err = n.http.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	if err != nil {
		why = err.Error()
	}
	n.say(foreign.Word{Event: "pollEnd", Reason: why})
}

type said struct {
	Event    string `json:"event"`
	Session  string `json:"session,omitempty"`
	Instance string `json:"instance"`
	T        int64  `json:"t"`
	Reason   string `json:"reason,omitempty"`
	From     string `json:"from,omitempty"`
	To       string `json:"to,omitempty"`
	Leader   string `json:"leader,omitempty"`
}

// say writes a line in one call, so that lines of several goroutines do not mix.
func (n *node) say(w foreign.Word) {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail for this clock
	l := said{
		Event: w.Event, Instance: n.Instance, T: ts.Nano(), Reason: w.Reason, From: w.From, To: w.To, Leader: w.Leader,
	}
	if w.Event != "ready" && w.Event != "stopped" {
		l.Session = n.LeaderKey
	}
	line, err := json.Marshal(l)
	if err == nil {
		_, err = os.Stdout.Write(append(line, '\n'))
	}
	if err != nil {
		os.Exit(1) // the parent is gone
	}
}
