package real

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/real/stream"
)

// ErrUnsupported: the fault cannot be injected with this kind of Redis; the message gives the reason.
var ErrUnsupported = errors.New("fault cannot be injected")

// Supports returns nil if the fault can be injected with this Redis, else ErrUnsupported or the error of [fault.Kind.Available].
func (r *Redis) Supports(k fault.Kind) error {
	if err := k.Available(); err != nil {
		return err
	}
	in, why := injectors[k], ""
	switch {
	case in.servers && r.replicated == nil:
		return fmt.Errorf("%w: %q: Redis has no replicas; use --topology sentinel", ErrUnsupported, string(k))
	case in.cluster && !r.clustered():
		return fmt.Errorf("%w: %q: Redis is no cluster; use --topology cluster", ErrUnsupported, string(k))
	}
	switch r.kind {
	case kindEmbedded:
		why = in.embedded
	case kindURL:
		why = in.given
	case kindCompose:
		if !in.composed {
			return fmt.Errorf("%w: %q: a composed fleet is somebody else's, who goes on with it and its data", ErrUnsupported, string(k))
		}
	}
	if why != "" {
		return fmt.Errorf("%w: %q: %s; use --redis server", ErrUnsupported, string(k), why)
	}
	return nil
}

// turnWithin is how long a fault waits for its turn: longer than a write of the workload takes.
const turnWithin = 250 * time.Millisecond

func (r *Redis) take(done <-chan struct{}) bool {
	select {
	case r.turn <- struct{}{}:
		return true
	case <-done:
		return false
	}
}

func (r *Redis) give() { <-r.turn }

// own returns the harness's client of the server under the current fault. The caller has the turn.
func (r *Redis) own() *redis.Client {
	if r.replicated != nil {
		return r.replicated.of(r.server).client.Load()
	}
	return r.client.Load()
}

// bootstrap writes the first epoch to an empty Redis, so that no node needs a quarantine. quarantine and replicas are the nodes'
// settings.
func (r *Redis) bootstrap(ctx context.Context, epochKey string, quarantine time.Duration, replicas int) error {
	id := "?"
	if info, err := r.client.Load().Info(ctx).Result(); err == nil {
		f := infoFields(info)
		if v := f["run_id"]; v != "" {
			id = v
		}
		if replicas > 0 { // docs/replicas.md
			full, _ := strconv.Atoi(f["sync_full"])
			partial, _ := strconv.Atoi(f["sync_partial_ok"])
			id = fmt.Sprintf("%s:%d:%d", id, full+partial, (replicas+1)/2)
		}
	}
	epoch := id + " 0"
	fresh, err := r.client.Load().SetNX(ctx, epochKey, epoch, 0).Result()
	if err != nil || !fresh {
		return err
	}
	return r.client.Load().HSet(ctx, epochKey+":group", "epoch", epoch, "quarantine", quarantine.Microseconds()).Err()
}

// executed returns how many commands all servers have executed over all restarts. A server that does not answer counts as 0.
func (r *Redis) executed(ctx context.Context) int64 {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	n := r.commands.Load()
	for _, client := range r.clients() {
		n += executedBy(ctx, client)
	}
	return n
}

func (r *Redis) clients() []*redis.Client {
	if r.replicated == nil {
		return []*redis.Client{r.client.Load()}
	}
	var all []*redis.Client
	for _, m := range r.replicated.members {
		all = append(all, m.client.Load())
	}
	return all
}

func executedBy(ctx context.Context, client *redis.Client) int64 {
	info, err := client.Info(ctx, "stats").Result()
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(infoFields(info)["total_commands_processed"], 10, 64)
	return n
}

// halt kills Redis. The caller has the turn.
func (r *Redis) halt(ctx context.Context) {
	if r.replicated == nil {
		r.commands.Store(r.executed(ctx))
	} else {
		r.commands.Add(executedBy(ctx, r.own()))
	}
	if r.mini != nil {
		r.mini.halt()
		return
	}
	r.server.kill()
}

// erase deletes the data of a halted Redis. The caller has the turn.
func (r *Redis) erase() error {
	if r.mini != nil {
		r.mini.m.FlushAll()
		return nil
	}
	return r.server.erase()
}

// resume starts a halted Redis and returns when it accepts commands. The caller has the turn.
func (r *Redis) resume(ctx context.Context, args ...string) error {
	defer r.renewClient()
	if r.mini != nil {
		return r.mini.resume()
	}
	var err error
	for range 3 { // another process may hold the port for a moment
		if err = r.server.start(ctx, args...); !errors.Is(err, redisfixture.ErrPortTaken) {
			break
		}
	}
	if err == nil && r.clustered() {
		r.replicated.awaitServing(ctx, r.replicated.of(r.server))
	}
	return err
}

// compact makes Redis rewrite its append-only file, so that loading takes one step per key. It returns the number of keys.
func (r *Redis) compact(ctx context.Context) (keys int64, err error) {
	client := r.own()
	if err := client.BgRewriteAOF(ctx).Err(); err != nil {
		return 0, err
	}
	if err := awaitFile(ctx, client); err != nil {
		return 0, err
	}
	return client.DBSize(ctx).Result()
}

func awaitFile(ctx context.Context, client *redis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, serverStart)
	defer cancel()
	return redisfixture.Await(ctx, func(ctx context.Context) bool {
		f := infoFields(client.Info(ctx, "persistence").Val())
		return f["aof_enabled"] == "1" && f["aof_rewrite_in_progress"] == "0" && f["aof_rewrite_scheduled"] == "0"
	})
}

// streamed returns the only server, for its stream.
func (r *Redis) streamed() stream.Server {
	return stream.Server{Admin: r.admin, Client: r.client.Load, Skewed: r.kind == kindURL}
}
