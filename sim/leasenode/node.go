package leasenode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"github.com/leasestorm/leasestorm/lease"
)

const (
	exitWrong   = 3
	firstWithin = 5 * time.Second // bound of an adapter's first answer
	stopWithin  = 4 * time.Second // bound of the releases after SIGTERM
)

// node is the process. Each lease has a goroutine that renews and one that polls.
type node struct {
	argv        []string // of the adapter
	check       bool     // ask the adapter before each poll
	blind       bool     // ignore its deadlines
	instance    string
	target      string
	keyPrefix   string
	sessionKeys string // prefix
	ttl         time.Duration
	renew       time.Duration
	discovery   time.Duration
	poll        time.Duration
	pollTimeout time.Duration
	redis       *redis.Client // for the sessions only
	http        http.Client

	works    bool            // the adapter has given a valid answer
	pausing  atomic.Bool     // the next poll pauses between check and send
	patience context.Context // ends when the adapter has had its time to release
	holding  sync.WaitGroup
	mu       sync.Mutex
	terms    map[string]*term // by session
}

// Main runs a node until SIGTERM. Its arguments are options and the adapter's command. It returns the exit code: 0, or 3 if the command
// line, the environment or the adapter is wrong.
func Main(args []string) int {
	n, err := newNode(args)
	if err == nil {
		defer n.redis.Close()
		err = n.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitWrong
	}
	return 0
}

func newNode(args []string) (*node, error) {
	n := &node{
		instance: lease.GenerateInstanceID(), target: os.Getenv("LEASESTORM_TARGET_URL"), keyPrefix: os.Getenv("LEASESTORM_LEASE_PREFIX"),
		sessionKeys: os.Getenv("LEASESTORM_SESSION_PREFIX"), terms: map[string]*term{},
	}
	n.argv = args
	for ; len(n.argv) > 0 && strings.HasPrefix(n.argv[0], "--"); n.argv = n.argv[1:] {
		switch n.argv[0] {
		case "--check":
			n.check = true
		case "--no-deadline":
			n.blind = true
		default:
			return nil, fmt.Errorf("%q: unknown option of a lease command: known are --check, --no-deadline", n.argv[0])
		}
	}
	if len(n.argv) == 0 {
		return nil, errors.New("the lease command names no program")
	}
	opt, err := redis.ParseURL(os.Getenv("LEASESTORM_REDIS_URL"))
	if err != nil {
		return nil, fmt.Errorf("LEASESTORM_REDIS_URL: %w", err)
	}
	opt.DisableIdentity = true
	n.redis = redis.NewClient(opt)
	for _, d := range []struct {
		name string
		to   *time.Duration
	}{
		{"TTL", &n.ttl}, {"RENEW", &n.renew}, {"DISCOVERY", &n.discovery}, {"POLL", &n.poll}, {"POLL_TIMEOUT", &n.pollTimeout},
	} {
		ms, err := strconv.ParseInt(os.Getenv("LEASESTORM_"+d.name+"_MS"), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("LEASESTORM_%s_MS: %w", d.name, err)
		}
		*d.to = time.Duration(ms) * time.Millisecond
	}
	return n, nil
}

func (n *node) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	pauses := make(chan os.Signal, 1)
	signal.Notify(pauses, syscall.SIGUSR1)
	defer signal.Stop(pauses)
	context.AfterFunc(ctx, func() { n.loseAll(nil, errStopping) })
	var giveUp context.CancelFunc
	n.patience, giveUp = context.WithCancel(context.Background())
	defer giveUp()
	context.AfterFunc(ctx, func() { time.AfterFunc(stopWithin, giveUp) })
	go func() {
		for range pauses {
			n.pausing.Store(true)
		}
	}()
	for ctx.Err() == nil {
		a, err := startAdapter(n.argv, append(os.Environ(), "LEASESTORM_INSTANCE="+n.instance), n.lost, n.wrong)
		if err == nil {
			err = n.serve(ctx, a)
		}
		switch {
		case err == nil:
		case !n.works:
			return err
		default:
			n.wrong(err.Error())
			pause(ctx, n.renew)
		}
	}
	n.say(line{Event: "stopped"})
	return nil
}

// serve acquires leases through the adapter until ctx or the adapter ends. It returns when all leases have ended, with the adapter's error.
func (n *node) serve(ctx context.Context, a *adapter) error {
	err := n.acquire(ctx, a)
	if err != nil {
		n.loseAll(a, err)
	}
	n.holding.Wait()
	a.stop()
	return err
}

// acquire asks for one session at a time, in random order. The more leases the node has, the less often it asks.
func (n *node) acquire(ctx context.Context, a *adapter) error {
	var sessions []string
	var looked time.Time
	for ctx.Err() == nil {
		if time.Since(looked) > n.discovery {
			looked = time.Now()
			sessions = n.discover(ctx, sessions)
		}
		session, held := n.choose(sessions)
		if session != "" {
			if err := n.try(ctx, a, session); err != nil {
				return err
			}
		}
		select {
		case <-a.ended:
			return a.err
		case <-ctx.Done():
		case <-time.After(rand.N(n.renew/10*time.Duration(1+held) + 1)):
		}
	}
	return nil
}

// try asks the adapter for a lease. The adapter's first answer makes the node ready; an error means that it is not valid.
func (n *node) try(ctx context.Context, a *adapter, session string) error {
	patience, cancel := n.patience, context.CancelFunc(func() {})
	if !n.works {
		patience, cancel = context.WithTimeout(n.patience, firstWithin)
	}
	defer cancel()
	t := &term{n: n, a: a, session: session, certain: true}
	got := t.ask(patience, opAcquire)
	switch {
	case n.works || ctx.Err() != nil:
	case got.err != nil:
		return got.err
	default:
		n.works = true
		n.say(line{Event: "ready", Protocol: 1, Asks: n.check})
	}
	if !got.ok() {
		return nil
	}
	t.fence, t.until = got.Fence, n.until(got)
	t.ctx, t.end = context.WithCancelCause(context.Background())
	n.mu.Lock()
	n.terms[session] = t
	n.mu.Unlock()
	if t.until.IsZero() || time.Until(t.until) > 0 {
		t.say(line{Event: "acquired", Until: t.until})
	} else {
		t.end(errors.New("the answer came after its deadline"))
	}
	if ctx.Err() != nil {
		t.lose(errStopping)
	}
	n.holding.Go(func() {
		t.hold()
		n.mu.Lock()
		delete(n.terms, session)
		n.mu.Unlock()
	})
	return nil
}

// until converts the deadline of an answer to this process' clock. Zero: the adapter names none.
func (n *node) until(a answer) time.Time {
	if a.Until == 0 || n.blind {
		return time.Time{}
	}
	now := time.Now()
	return now.Add(time.UnixMilli(a.Until).Sub(now.Round(0)))
}

// choose returns a random session without a lease of this node, and the number of its leases.
func (n *node) choose(sessions []string) (string, int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	free := slices.DeleteFunc(slices.Clone(sessions), func(s string) bool { return n.terms[s] != nil })
	if len(free) == 0 {
		return "", len(n.terms)
	}
	return free[rand.IntN(len(free))], len(n.terms)
}

// discover returns the sessions in Redis that are not paused, or those known if Redis does not answer.
func (n *node) discover(ctx context.Context, known []string) (found []string) {
	keys := n.redis.Scan(ctx, 0, n.sessionKeys+"*", 1000).Iterator()
	for keys.Next(ctx) {
		text, err := n.redis.Get(ctx, keys.Val()).Bytes()
		var s struct {
			IsPaused bool `json:"isPaused"`
		}
		if err == nil && json.Unmarshal(text, &s) == nil && !s.IsPaused {
			found = append(found, strings.TrimPrefix(keys.Val(), n.sessionKeys))
		}
	}
	if keys.Err() != nil {
		return known
	}
	return found
}

func (n *node) key(session string) string { return n.keyPrefix + session }

// lost ends the lease of a key, because the adapter says so.
func (n *node) lost(key string) {
	n.mu.Lock()
	t := n.terms[strings.TrimPrefix(key, n.keyPrefix)]
	n.mu.Unlock()
	if t != nil {
		t.lose(errors.New("the adapter said lost"))
	}
}

// loseAll ends all leases of an adapter, or of every adapter.
func (n *node) loseAll(of *adapter, why error) {
	n.mu.Lock()
	all := slices.Collect(maps.Values(n.terms))
	n.mu.Unlock()
	for _, t := range all {
		if of == nil || t.a == of {
			t.lose(why)
		}
	}
}

// wrong reports a violation of the lease protocol in the log, and in the run's history as a line that is none of the node protocol.
func (n *node) wrong(text string) {
	fmt.Fprintln(os.Stderr, text)
	n.write(text)
}

// line is one line of the node protocol.
type line struct {
	Event    string    `json:"event"`
	Session  string    `json:"session,omitempty"`
	Instance string    `json:"instance"`
	Fence    int64     `json:"fence,omitempty"`
	T        int64     `json:"t"`
	UntilNs  int64     `json:"until,omitempty"`
	Until    time.Time `json:"-"`
	Protocol int       `json:"protocol,omitempty"`
	Asks     bool      `json:"asks,omitempty"`
	Reason   string    `json:"reason,omitempty"`
}

func (n *node) say(l line) {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail for this clock
	l.Instance, l.T = n.instance, ts.Nano()
	if !l.Until.IsZero() {
		l.UntilNs = l.T + int64(time.Until(l.Until))
	}
	text, _ := json.Marshal(l) // cannot fail
	n.write(string(text))
}

// write writes a line in one call, so that lines of several goroutines do not mix.
func (n *node) write(text string) {
	if _, err := os.Stdout.WriteString(text + "\n"); err != nil {
		os.Exit(1) // the simulator is gone
	}
}

// pause waits, and reports whether it did before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
