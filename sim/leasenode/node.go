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
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	exitWrong   = 3
	firstWithin = 5 * time.Second // bound of an adapter's first answer
	stopWithin  = 4 * time.Second // bound of the releases after SIGTERM
)

// node is the process. Each lease has a goroutine that renews and one that polls.
type node struct {
	settings

	works   bool // the adapter has given a valid answer
	holding sync.WaitGroup
	mu      sync.Mutex
	terms   map[string]*term // by session
}

// Main runs a node until SIGTERM. Its arguments are options and the adapter's command. It returns the exit code: 0, or 3 if the command
// line, the environment or the adapter is wrong.
func Main(args []string) int {
	n := &node{terms: map[string]*term{}}
	err := n.read(args)
	if err == nil {
		err = n.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitWrong
	}
	return 0
}

func (n *node) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	defer onPause(func() { n.pausing.Store(true) })()
	context.AfterFunc(ctx, func() { n.loseAll(nil, errStopping) })
	var giveUp context.CancelFunc
	n.patience, giveUp = context.WithCancel(context.Background())
	defer giveUp()
	context.AfterFunc(ctx, func() { time.AfterFunc(stopWithin, giveUp) })
	for ctx.Err() == nil {
		a, err := startAdapter(n.argv, n.lost, n.wrong)
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
	lost := make(chan struct{})
	go func() { // at once, although acquire may wait for the target
		defer close(lost)
		<-a.ended
		n.loseAll(a, a.err)
	}()
	err := n.acquire(ctx, a)
	if err != nil {
		n.loseAll(a, err)
	}
	n.holding.Wait()
	a.stop()
	<-lost
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
	t := &term{n: &n.settings, a: a, session: session, certain: true}
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

// discover returns the sessions that are not paused, or those known if the target does not answer.
func (n *node) discover(ctx context.Context, known []string) (found []string) {
	ctx, cancel := context.WithTimeout(ctx, n.pollTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.target+"/sessions", nil)
	if err != nil {
		return known
	}
	resp, err := n.http.Do(req)
	if err != nil {
		return known
	}
	defer resp.Body.Close()
	if json.NewDecoder(resp.Body).Decode(&found) != nil {
		return known
	}
	return found
}

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
