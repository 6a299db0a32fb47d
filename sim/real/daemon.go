package real

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/real/process"
)

type daemon struct {
	proc  process.Program
	asked *atomic.Bool // the harness ends it; nil: it never served
	lose  func(error)  // called when it ends by itself
}

// run starts the daemon with its output in a log file, waits until the log contains ready, and then watches the daemon.
func (d *daemon) run(
	ctx context.Context, name, logFile, ready string, within time.Duration, launch func(log *os.File) (process.Program, error),
) error {
	err := redisfixture.Start(ctx, logFile, ready, within, func(log *os.File) (redisfixture.Program, error) {
		p, err := launch(log)
		if err != nil { // keep the ended one: killing it again does nothing
			return redisfixture.Program{}, err
		}
		d.proc = p
		return redisfixture.Program{Ended: p.Ended(), Kill: p.Kill}, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNoServer, name, err)
	}
	d.serves(name)
	return nil
}

// serves watches a ready daemon. Any end but by kill ends the run: nodes were without a Redis although no fault took it.
func (d *daemon) serves(name string) {
	p, asked := d.proc, new(atomic.Bool)
	d.asked = asked
	go func() {
		<-p.Ended()
		if asked.Load() {
			return
		}
		_, code := p.End()
		d.lose(fmt.Errorf("%w: %s ended with code %d (-1: by a signal; dmesg says whether the kernel had no memory): what the run shows is "+
			"worth nothing", ErrGone, name, code))
	}()
}

func (d *daemon) kill() {
	if d.asked != nil {
		d.asked.Store(true)
	}
	d.proc.Kill()
}

// lose ends the run with the first reason given.
func (r *Redis) lose(why error) {
	select {
	case r.lost <- why:
	default:
	}
}
