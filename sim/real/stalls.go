package real

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/stream"
	"github.com/leasestorm/leasestorm/sim/timing"
)

func (r *run) watchStalls(stop <-chan struct{}) {
	host.MeterStalls(meterEvery, r.clock.Now, stop, r.stalled)
}

// stalled records a host stall, in which the nodes did not run either.
func (r *run) stalled(from, to int64) {
	r.rec.Add(history.Event{T: max(0, from), Kind: history.Stall, Until: to})
	r.load.Add(from, to)
}

// timed returns callbacks that record the time from a fault's begin to its signal as a stall: a container engine may delay the signal.
func (r *run) timed(begin func()) (began, sent func()) {
	from := int64(0)
	return func() { begin(); from = r.clock.Now() }, func() {
		if to := r.clock.Now(); to-from > int64(host.StallMin) {
			r.stalled(from, to)
		}
	}
}

// readMeter records the stalls that the meter in a container reports: containers have their own share of the machine.
func (r *run) readMeter(said io.ReadCloser) {
	defer func() { _ = said.Close() }()
	for lines := bufio.NewScanner(said); lines.Scan(); {
		var from, to int64
		if _, err := fmt.Sscan(lines.Text(), &from, &to); err != nil {
			return
		}
		r.stalled(r.clock.FromMono(from), r.clock.FromMono(to))
	}
}

// watchRedis records when a Redis server hung without a fault: stopped, throttled, swapped out, or blocked by its disk.
func (r *run) watchRedis(stop <-chan struct{}) {
	var all sync.WaitGroup
	defer all.Wait()
	for i := range r.redis.clients() {
		p := pulse{
			ask: func() bool { return answers(r.redis.clients()[i]) }, now: r.clock.Now, underFault: r.redisUnderFault, stalled: r.stalled,
			abort: r.abort, most: r.cfg.silentWithin, waited: waits(r.redis, i),
		}
		all.Go(func() { p.follow(stop) })
	}
}

type pulse struct {
	ask        func() bool
	waited     func() time.Duration // time that the server waited for a core since the last call
	now        func() int64
	underFault func(since int64) bool // whether a fault acted on Redis at any time since
	stalled    func(from, to int64)
	abort      func(error)
	most       time.Duration // longest tolerated silence: after a TTL without Redis, no lease is left to judge
}

func (p *pulse) follow(stop <-chan struct{}) {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	told := p.now()             // stalls before this time are recorded
	last := told                // time of the last check
	silence := time.Duration(0) // time without an answer since the last answer or fault
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		answered, before := p.ask(), silence
		now := p.now()
		if wait := int64(p.waited()); wait > int64(host.StallMin) { // no fault causes such a wait
			p.stalled(now-wait, now)
		}
		// Cap the step: a longer one means that the harness did not run.
		silence += min(time.Duration(now-last), lookEvery+pulseEvery)
		last = now
		switch {
		case p.underFault(told): // silence under a fault is no stall
			told, silence = now, 0
			continue
		case before > 0 || now-told > int64(pulseStall): // also the rest of a recorded silence
			p.stalled(told, now)
			told = now
		case answered:
			told = now
		}
		if answered {
			silence = 0
		}
		if silence > p.most {
			p.abort(fmt.Errorf("%w: a Redis did not answer for %v, which is longer than a TTL, and no fault of the plan had it in hand: look "+
				"what stopped it (a signal, swap, its disk, a share of the machine that is used up, a command that lasts)", host.ErrNoVerdict,
				silence.Round(time.Millisecond)))
		}
	}
}

// answers reports whether a Redis replies within lookEvery. A refusal is a reply.
func answers(client *redis.Client) bool {
	ctx, cancel := context.WithTimeout(context.Background(), lookEvery)
	defer cancel()
	err := client.Ping(ctx).Err()
	var refusal redis.Error
	return err == nil || errors.As(err, &refusal)
}

// waits returns a function that returns the server's wait for a core since the last call; 0 if the kernel does not count it here.
func waits(r *Redis, i int) func() time.Duration {
	if _, err := host.RunDelay("self"); err != nil || r.Kind != kindServer {
		return func() time.Duration { return 0 }
	}
	pid, before := "", time.Duration(0)
	return func() time.Duration {
		all, err := host.RunDelay(pid)
		if err != nil { // it was restarted
			pid, before = processID(r.clients()[i]), 0
			if all, err = host.RunDelay(pid); err != nil {
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

func (r *run) redisUnderFault(since int64) bool {
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

// weighed returns the length of the measurement at the start of the storm: enough to poll each session twice.
func weighed(t timing.Timings) time.Duration { return max(3*time.Second, 2*t.Poll) }

func (r *run) weigher(within time.Duration) func() {
	stalled, polls := r.load.Stalled(), r.target.Polls.Load()
	return func() {
		due := int64(0)
		if r.cfg.System == systemPolling {
			due = int64(r.cfg.Sessions) * int64(within/r.cfg.Poll)
		}
		if why := r.load.Judge(r.cfg.Speed, within, stalled, r.target.Polls.Load()-polls, due); why != "" {
			r.record(history.Event{Kind: history.Note, Reason: why})
		}
	}
}

func (r *run) countAll(stop <-chan struct{}) {
	host.Every(history.Bucket(r.cfg.Renew), stop, func() {
		for _, s := range r.allSlots() {
			s.count(r.clock.Now())
		}
	})
}

func (s *slot) count(t int64) {
	if n := s.conn.Sent(); n > 0 {
		s.run.rec.Add(history.Event{T: t, Kind: history.Commands, Node: s.name, N: n})
	}
}

const (
	meterEvery    = time.Millisecond
	meterBoxEvery = 5 * time.Millisecond // in a container

	pulseEvery = 50 * time.Millisecond
	pulseStall = 2 * pulseEvery
)

// watchPorts ends the run when no port is free. Any user may take all ports, which cuts nodes off from Redis unseen by the harness.
func (r *run) watchPorts(stop <-chan struct{}) { watchPorts(r.target.Dial, r.abort, stop) }

func watchPorts(dial func() (net.Conn, error), tell func(error), stop <-chan struct{}) {
	host.Every(lookEvery, stop, func() {
		c, err := dial()
		if err != nil {
			host.TellExhausted(err, tell)
			return
		}
		host.Reset(c)
	})
}

// watchService ends the run without a verdict when Redis cannot write its file, which no fault causes. It also ends the run when
// Redis refuses a command that every run needs although no fault affects this command. In this case, the history so far is judged.
func (r *run) watchService(stop <-chan struct{}) {
	since, refused := r.clock.Now(), false
	host.Every(lookEvery, stop, func() {
		now := r.clock.Now()
		for _, client := range r.redis.clients() {
			noRoom, refusal := service(client)
			if refusal != nil && !refused && !r.redisUnderFault(since) {
				refused = true
				r.stalled(since, r.clock.Now())
				r.notef("Redis began to refuse what a run needs: %s", stream.Brief(refusal))
				r.end(refusal)
			}
			if noRoom {
				r.abort(fmt.Errorf("%w: Redis cannot write its data and refuses what nodes write: the folder of its data, "+
					"for a server of the run's own in TMPDIR, must have room", host.ErrNoVerdict))
			}
		}
		since = now
	})
}

// service reports whether a Redis failed its last write to its file, and its refusal of a command that every run needs. A Redis that does
// not answer within lookEvery counts as healthy.
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

// meterArg makes a program that calls ReaperMain first a stall meter. It prints when it was not scheduled, until SIGTERM.
const meterArg = "__canary"
