package virtual

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

const (
	roleAPI    = "api"
	roleWorker = "worker"
)

const storePatience = 3 * time.Second

// intentProcess is what the parts of a process share.
type intentProcess struct {
	n      *node
	gen    uint32 // of n, while the process runs
	ctx    context.Context
	cancel context.CancelFunc
}

func (p *intentProcess) runs() bool { return p.n.gen == p.gen }

// begin runs f as a routine of the process.
func (p *intentProcess) begin(f func(*routine)) { p.n.fleet.routines.begin(p.n, f) }

func (p *intentProcess) current() *routine { return p.n.fleet.routines.current }

// never replaces the timeouts of production code, because the model handles timeouts.
const never = 24 * time.Hour

// poolSize exceeds a process' routines: a routine that waits for a connection would block the run.
const poolSize = 1 << 12

// bufferSize is small, because a run makes hundreds of connections with a few commands each.
const bufferSize = 512

func (p *intentProcess) dial(patience time.Duration) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: "model:0", Protocol: 2, ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			return redis.NewConn(func(args []string) (redis.Reply, error) { return p.ask(args, patience) }), nil
		},
	})
}

func (p *intentProcess) ask(args []string, patience time.Duration) (v redis.Reply, err error) {
	r := p.current()
	if r == nil || r.dead {
		return nil, errReset
	}
	for i, arg := range args {
		if strings.EqualFold(arg, "BLOCK") && i+1 < len(args) {
			ms, _ := time.ParseDuration(args[i+1] + "ms")
			patience += ms
		}
	}
	over := false // a socket delivers every answer once
	p.n.request(args, patience, func(got redis.Reply, failed error) {
		if !over {
			over, v, err = true, got, failed
			r.wake()
		}
	})
	if !r.park() {
		return nil, errReset
	}
	return v, err
}

// must panics on an error, which only a bug of this engine causes.
func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("virtual: %v", err))
	}
	return v
}
