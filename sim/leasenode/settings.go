package leasenode

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname
)

// stdout is where the node reports. An adapter in the same process has another os.Stdout.
var stdout = os.Stdout

// settings is what a node and its leases share: how the harness wants them to work, and the output on which they report.
type settings struct {
	argv        []string // of the adapter
	check       bool     // ask the adapter before each poll
	blind       bool     // ignore its deadlines
	instance    string
	target      string
	keyPrefix   string
	ttl         time.Duration
	renew       time.Duration
	discovery   time.Duration
	poll        time.Duration
	pollTimeout time.Duration
	http        http.Client

	pausing  atomic.Bool     // the next poll pauses between check and send
	patience context.Context // ends when the adapter has had its time to release
}

// read takes the settings from the arguments and from the environment that a node is started with.
func (n *settings) read(args []string) error {
	n.instance, n.target, n.keyPrefix = instance(), os.Getenv("LEASESTORM_TARGET_URL"), os.Getenv("LEASESTORM_LEASE_PREFIX")
	n.argv = args
	for ; len(n.argv) > 0 && strings.HasPrefix(n.argv[0], "--"); n.argv = n.argv[1:] {
		switch n.argv[0] {
		case "--check":
			n.check = true
		case "--no-deadline":
			n.blind = true
		default:
			return fmt.Errorf("%q: unknown option of a lease command: choose from --check, --no-deadline", n.argv[0])
		}
	}
	for _, d := range []struct {
		name string
		to   *time.Duration
	}{
		{"TTL", &n.ttl}, {"RENEW", &n.renew}, {"DISCOVERY", &n.discovery}, {"POLL", &n.poll}, {"POLL_TIMEOUT", &n.pollTimeout},
	} {
		ms, err := strconv.ParseInt(os.Getenv("LEASESTORM_"+d.name+"_MS"), 10, 64)
		if err != nil {
			return fmt.Errorf("LEASESTORM_%s_MS: %w", d.name, err)
		}
		*d.to = time.Duration(ms) * time.Millisecond
	}
	return nil
}

// instance returns this process' instance ID.
var instance = sync.OnceValue(func() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s-%d-%08x", cmp.Or(host, "unknown"), time.Now().UnixNano(), rand.Uint32())
})

// monotonic reads CLOCK_MONOTONIC, in ns.
//
//go:linkname monotonic runtime.nanotime
func monotonic() int64

// until converts the deadline of an answer to this process' clock. Zero: the adapter names none.
func (n *settings) until(a answer) time.Time {
	if a.Until == 0 || n.blind {
		return time.Time{}
	}
	now := time.Now()
	return now.Add(time.UnixMilli(a.Until).Sub(now.Round(0)))
}

func (n *settings) key(session string) string { return n.keyPrefix + session }

// wrong reports a violation of the lease protocol in the log, and in the run's history as a line that is none of the node protocol.
func (n *settings) wrong(text string) {
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

func (n *settings) say(l line) {
	l.Instance, l.T = n.instance, monotonic()
	if !l.Until.IsZero() {
		l.UntilNs = l.T + int64(time.Until(l.Until))
	}
	text, _ := json.Marshal(l) // cannot fail
	n.write(string(text))
}

// write writes a line in one call, so that lines of several goroutines do not mix.
func (n *settings) write(text string) {
	if _, err := stdout.WriteString(text + "\n"); err != nil {
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
