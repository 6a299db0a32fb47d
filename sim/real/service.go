package real

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/stream"
)

// watchPorts ends the run when no port is free. Any user may take all ports, which cuts nodes off from Redis unseen by the harness.
func (r *run) watchPorts(stop <-chan struct{}) { watchPorts(r.target.Dial, r.starve, stop) }

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

// watchService ends the run without a verdict when Redis cannot write its file, which no fault causes. It also ends the run when Redis
// refuses a command that every run needs while no fault affects it; the history so far is then judged.
func (r *run) watchService(stop <-chan struct{}) {
	since, refused := r.clock.Now(), false
	host.Every(lookEvery, stop, func() {
		now := r.clock.Now()
		for _, client := range r.redis.clients() {
			noRoom, refusal := service(client)
			if refusal != nil && !refused && !r.redisInHand(since) {
				refused = true
				r.stalled(since, r.clock.Now())
				r.notef("Redis began to refuse what a run needs: %s", stream.Brief(refusal))
				r.end(refusal)
			}
			if noRoom {
				r.starve(fmt.Errorf("%w: Redis cannot write its data and refuses what nodes write: the folder of its data, "+
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
