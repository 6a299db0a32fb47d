package real

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

const (
	canaryEvery    = time.Millisecond
	canaryBoxEvery = 5 * time.Millisecond
	canaryStall    = 5 * time.Millisecond

	canaryRedisEvery = 50 * time.Millisecond // each is a command
	canaryRedisStall = 2 * canaryRedisEvery
)

func (r *run) watchStalls(stop <-chan struct{}) { canary(canaryEvery, r.clock.now, stop, r.stalled) }

// canary measures how long this process was not scheduled: a loaded host delays the nodes as much.
func canary(every time.Duration, now func() int64, stop <-chan struct{}, tell func(from, to int64)) {
	tick := time.NewTimer(every)
	defer tick.Stop()
	for {
		due := now() + int64(every)
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if t := now(); t-due > int64(canaryStall) {
			tell(due, t)
		}
		tick.Reset(every)
	}
}

// stalled records a host stall. Every stall counts, because the nodes did not run either.
func (r *run) stalled(from, to int64) {
	r.rec.Add(history.Event{T: max(0, from), Kind: history.Stall, Until: to})
	r.load.add(from, to)
}

// timed returns callbacks for the time from a fault's begin until its signal is sent, which counts as a stall: a container engine may take
// longer to send a signal than a node to obey it.
func (r *run) timed(begin func()) (began, sent func()) {
	from := int64(0)
	return func() { begin(); from = r.clock.now() }, func() {
		if to := r.clock.now(); to-from > int64(canaryStall) {
			r.stalled(from, to)
		}
	}
}

// hear records what the canary in a container reports. Containers have their own share of the machine, so they may wait while this process
// runs.
func (r *run) hear(said io.ReadCloser) {
	defer func() { _ = said.Close() }()
	for lines := bufio.NewScanner(said); lines.Scan(); {
		var from, to int64
		if _, err := fmt.Sscan(lines.Text(), &from, &to); err != nil {
			return
		}
		r.stalled(r.clock.fromMono(from), r.clock.fromMono(to))
	}
}

// watchRedis records when a Redis server hung without a fault: stopped, throttled, swapped, or in a write that its disk does not finish.
func (r *run) watchRedis(stop <-chan struct{}) {
	var all sync.WaitGroup
	defer all.Wait()
	for i := range r.redis.clients() {
		p := pulse{
			ask: func() bool { return answers(r.redis.clients()[i]) }, now: r.clock.now, inHand: r.redisInHand, stalled: r.stalled,
			starve: r.starve, most: r.cfg.silentWithin, waited: r.redis.waits(i),
		}
		all.Go(func() { p.follow(stop) })
	}
}

// pulse polls a server for an answer.
type pulse struct {
	ask     func() bool
	waited  func() time.Duration // for a core, since this was asked last
	now     func() int64
	inHand  func(since int64) bool // a fault had Redis in hand at any time since then
	stalled func(from, to int64)
	starve  func(error)
	most    time.Duration // that a stall may last: who was without Redis for longer had no lease left to be judged by
}

func (p *pulse) follow(stop <-chan struct{}) {
	tick := time.NewTicker(canaryRedisEvery)
	defer tick.Stop()
	told := p.now()             // until then it ran, or it is told that it did not
	last := told                // when it was asked last
	silence := time.Duration(0) // for which it was asked in vain since it answered, or a fault had it in hand
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		answered, before := p.ask(), silence
		now := p.now()
		if wait := int64(p.waited()); wait > int64(canaryStall) { // no fault does that
			p.stalled(now-wait, now)
		}
		// For how long says nothing of a harness that did not run meanwhile.
		silence += min(time.Duration(now-last), lookEvery+canaryRedisEvery)
		last = now
		switch {
		case p.inHand(told): // what a fault does is no stall
			told, silence = now, 0
			continue
		case before > 0 || now-told > int64(canaryRedisStall): // also the rest of what was told before
			p.stalled(told, now)
			told = now
		case answered:
			told = now
		}
		if answered {
			silence = 0
		}
		if silence > p.most {
			p.starve(fmt.Errorf("%w: a Redis did not answer for %v, which is longer than a TTL, and no fault of the plan had it in hand: look "+
				"what stopped it (a signal, swap, its disk, a share of the machine that is used up, a command that lasts)", ErrStarved,
				silence.Round(time.Millisecond)))
		}
	}
}

// answers reports whether a Redis replies at once. A refusal is a reply.
func answers(client *redis.Client) bool {
	ctx, cancel := context.WithTimeout(context.Background(), lookEvery)
	defer cancel()
	err := client.Ping(ctx).Err()
	var refusal redis.Error
	return err == nil || errors.As(err, &refusal)
}

// waits returns a function that tells how long the server's process waited for a core since the last call. It works for the run's own
// servers on this machine, if the kernel counts it.
func (r *Redis) waits(i int) func() time.Duration {
	if _, err := runDelay("self"); err != nil || r.kind != kindServer {
		return func() time.Duration { return 0 }
	}
	pid, before := "", time.Duration(0)
	return func() time.Duration {
		all, err := runDelay(pid)
		if err != nil { // it was started anew
			pid, before = processID(r.clients()[i]), 0
			if all, err = runDelay(pid); err != nil {
				return 0
			}
		}
		defer func() { before = all }()
		return all - before
	}
}

func processID(client *redis.Client) string {
	ctx, cancel := context.WithTimeout(context.Background(), lookEvery)
	defer cancel()
	info, _ := client.Info(ctx, "server").Result()
	return infoFields(info)["process_id"]
}

func (r *run) redisInHand(since int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.active {
		if r.ofRedis(a.n) {
			return true
		}
	}
	return r.healed >= since
}

func (r *run) ofRedis(n int) bool {
	scope := r.cfg.Plan.Faults[n].Kind.Scope()
	return scope == fault.ScopeRedis || scope == fault.ScopeServers
}
