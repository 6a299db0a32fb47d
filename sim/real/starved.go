package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrStarved: the harness has run out of open files, the machine of ports for connections, Redis of room for its data, Redis stood still
// for longer than a TTL by no fault of the plan, or a node had to drop what it said. What nodes did without
// their way to Redis or to the target, without a Redis that answers and takes writes, or what is not in the history, says nothing about
// them.
var ErrStarved = errors.New("the harness cannot go on, and no verdict is given")

// tellExhausted tells of an error that is the harness' own want of files, or the machine's of ports, and of no other.
func tellExhausted(err error, tell func(error)) {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		tell(fmt.Errorf("%w: it has run out of open files: raise the limit (ulimit -n), or look who connects to its ports: %w", ErrStarved, err))
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		tell(fmt.Errorf("%w: this machine has no port left for a connection: look who holds them (ss -an): %w", ErrStarved, err))
	}
}

// lookEvery is how often it is looked whether the machine has a port left, and Redis room: much less than what a guarantee waits for.
const lookEvery = 250 * time.Millisecond

// every calls f once a period until stop is closed.
func every(period time.Duration, stop <-chan struct{}, f func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f()
		case <-stop:
			return
		}
	}
}

// watchPorts ends the run when there is none. Any user of the machine may take them all, and nodes do not come to their Redis then, past
// everything that the harness sees.
func (r *run) watchPorts(stop <-chan struct{}) { watchPorts(r.target.dial, r.starve, stop) }

func watchPorts(dial func() (net.Conn, error), tell func(error), stop <-chan struct{}) {
	every(lookEvery, stop, func() {
		c, err := dial()
		if err != nil {
			tellExhausted(err, tell)
			return
		}
		reset(c)
	})
}

// watchService ends the run when Redis has no room for what it is told, and so refuses all writes, or refuses a command that every run
// needs. No fault causes the first; the second does not count while a fault affects Redis. The judge hears of what happened until then.
func (r *run) watchService(stop <-chan struct{}) {
	since, refused := r.clock.now(), false
	every(lookEvery, stop, func() {
		now := r.clock.now()
		for _, client := range r.redis.clients() {
			noRoom, refusal := service(client)
			if refusal != nil && !refused && !r.redisInHand(since) {
				refused = true
				r.stalled(since, r.clock.now())
				r.notef("Redis began to refuse what a run needs: %s", brief(refusal))
				r.end(refusal)
			}
			if noRoom {
				r.starve(fmt.Errorf("%w: Redis cannot write its data and refuses what nodes write: the folder of its data, "+
					"for a server of the run's own in TMPDIR, must have room", ErrStarved))
			}
		}
		since = now
	})
}

// service reports whether a Redis failed to write to its file last, and how it refuses a command that every run needs. A Redis that does
// not answer at once, as under a fault, is asked again.
func service(client *redis.Client) (noRoom bool, refusal error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookEvery)
	defer cancel()
	info, err := client.Info(ctx, "persistence").Result()
	for _, err := range []error{err, client.Eval(ctx, "return 1", nil).Err(), client.Scan(ctx, 0, "", 1).Err()} {
		if err != nil && (strings.HasPrefix(err.Error(), "NOPERM") || strings.HasPrefix(err.Error(), "ERR unknown command")) {
			refusal = err
		}
	}
	return err == nil && infoFields(info)["aof_last_write_status"] == "err", refusal
}

// starve ends the run with an error, also one that is ending. The first one counts.
func (r *run) starve(err error) {
	r.mu.Lock()
	first := r.starved == nil
	r.starved = cmp.Or(r.starved, err)
	r.mu.Unlock()
	if first {
		r.notef("%v", err)
		r.end(err)
	}
}

// exhausting is a listener that tells when the harness has run out of files.
type exhausting struct {
	net.Listener
	short func(error)
}

// Accept implements net.Listener.
func (l exhausting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		tellExhausted(err, l.short)
	}
	return c, err
}
