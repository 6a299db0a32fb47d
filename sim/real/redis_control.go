package real

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// ErrUnsupported: this kind of Redis cannot do a fault; the message says why.
var ErrUnsupported = errors.New("fault cannot be injected")

// Why kinds of Redis cannot do what they cannot.
var (
	embeddedCannot = map[fault.Kind]string{
		fault.RedisFreeze:  "the embedded Redis is no process of its own",
		fault.RedisSlow:    "the embedded Redis does not run scripts on one thread as Redis does",
		fault.RedisLoading: "the embedded Redis loads nothing",
		fault.ClientKill:   "the embedded Redis has no CLIENT KILL",
	}
	givenCannot = map[fault.Kind]string{
		fault.RedisOutage:  "a given Redis is not the simulator's to kill",
		fault.RedisRestart: "a given Redis is not the simulator's to restart",
		fault.RedisWipe:    "a given Redis is not the simulator's to kill",
		fault.RedisFlush:   "a given Redis may hold other data",
		fault.RedisFreeze:  "a given Redis is not the simulator's to stop",
		fault.RedisLoading: "a given Redis is not the simulator's to restart",
		fault.RedisSlow:    "a given Redis may have other clients, which would wait",
		fault.ClientKill:   "a given Redis may have other clients, which would lose their connections",
	}
)

// cannotRefuse says which kinds of Redis cannot refuse writes, and why.
var cannotRefuse = map[string]string{
	kindEmbedded: "the embedded Redis refuses no writes",
	kindURL:      "a given Redis may have other clients, whose writes would fail",
}

// Supports returns nil if the fault can be injected with this Redis; otherwise why not: ErrUnsupported, or what
// [fault.Kind.Available] says of kinds of other engines and versions.
func (r *Redis) Supports(k fault.Kind) error {
	if err := k.Available(); err != nil {
		return err
	}
	why := map[string]map[fault.Kind]string{kindEmbedded: embeddedCannot, kindURL: givenCannot}[r.kind][k]
	if k.Refuses() != fault.RefusesNothing {
		why = cannotRefuse[r.kind]
	}
	if r.kind == kindCompose && !slices.Contains(composedCan, k) {
		return fmt.Errorf("%w: %q: a composed fleet is somebody else's, who goes on with it and its data", ErrUnsupported, string(k))
	}
	if why != "" {
		return fmt.Errorf("%w: %q: %s; use --redis server", ErrUnsupported, string(k), why)
	}
	return nil
}

// turnWithin is how long a fault waits for its turn: as long as the workload may take to write, and no longer.
const turnWithin = 250 * time.Millisecond

// take waits for the turn until done is closed, and reports whether it got it.
func (r *Redis) take(done <-chan struct{}) bool {
	select {
	case r.turn <- struct{}{}:
		return true
	case <-done:
		return false
	}
}

// give lets the next one have its turn.
func (r *Redis) give() { <-r.turn }

// bootstrap declares a first deployment on an empty Redis: an epoch without a quarantine.
// quarantine is what its group agrees on.
func (r *Redis) bootstrap(ctx context.Context, epochKey string, quarantine time.Duration) error {
	id := "?"
	if info, err := r.client.Load().Info(ctx, "server").Result(); err == nil {
		if v := infoFields(info)["run_id"]; v != "" {
			id = v
		}
	}
	epoch := id + " 0"
	fresh, err := r.client.Load().SetNX(ctx, epochKey, epoch, 0).Result()
	if err != nil || !fresh {
		return err
	}
	return r.client.Load().HSet(ctx, epochKey+":group", "epoch", epoch, "quarantine", quarantine.Microseconds()).Err()
}

// executed returns how many commands Redis has executed, over all restarts so far; 0 if it does not tell.
func (r *Redis) executed(ctx context.Context) int64 {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	client := r.client.Load()
	info, err := client.Info(ctx, "stats").Result()
	if err != nil {
		return r.commands.Load()
	}
	n, _ := strconv.ParseInt(infoFields(info)["total_commands_processed"], 10, 64)
	return r.commands.Load() + n
}

// halt kills Redis. The caller has the turn.
func (r *Redis) halt(ctx context.Context) {
	r.commands.Store(r.executed(ctx))
	if r.mini != nil {
		r.mini.m.Close()
		return
	}
	r.server.kill()
}

// erase forgets what a halted Redis held. The caller has the turn.
func (r *Redis) erase() error {
	if r.mini != nil {
		r.mini.m.FlushAll()
		return nil
	}
	return r.server.erase()
}

// resume starts a halted Redis and returns when it takes commands. The caller has the turn.
func (r *Redis) resume(ctx context.Context, args ...string) error {
	defer r.renewClient()
	if r.mini != nil {
		return r.mini.m.Restart()
	}
	var err error
	for range 3 { // something else may hold the port for a moment
		if err = r.server.start(ctx, args...); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

// compact makes Redis write its data anew, so that loading it means loading each key once, and returns their number.
func (r *Redis) compact(ctx context.Context) (keys int64, err error) {
	client := r.client.Load()
	if err := client.BgRewriteAOF(ctx).Err(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		info, err := client.Info(ctx, "persistence").Result()
		if err != nil {
			return 0, err
		}
		f := infoFields(info)
		if f["aof_rewrite_in_progress"] == "0" && f["aof_rewrite_scheduled"] == "0" {
			return client.DBSize(ctx).Result()
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}
