package real

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
)

// daemon is a server or a sentinel, which serves until the harness kills it.
type daemon struct {
	proc  program
	asked *atomic.Bool // its end is the harness' doing; nil: it never served
	lose  func(error)  // hears of an end that is not
}

// run starts it with its output in a log file, waits until the log says ready, and then watches it.
func (d *daemon) run(
	ctx context.Context, name, logFile, ready string, within time.Duration, launch func(log *os.File) (program, error),
) error {
	err := redisfixture.Start(ctx, logFile, ready, within, func(log *os.File) (redisfixture.Program, error) {
		p, err := launch(log)
		if err != nil { // the one that has ended stays: whoever ends it again does nothing
			return redisfixture.Program{}, err
		}
		d.proc = p
		return redisfixture.Program{Ended: p.ended(), Kill: p.kill}, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNoServer, name, err)
	}
	d.serves(name)
	return nil
}

// serves watches a program that answers. Any end but by kill leaves nodes without a Redis that no fault took, even if a later fault
// restarts it.
func (d *daemon) serves(name string) {
	p, asked := d.proc, new(atomic.Bool)
	d.asked = asked
	go func() {
		<-p.ended()
		if asked.Load() {
			return
		}
		_, code := p.end()
		d.lose(fmt.Errorf("%w: %s ended with code %d (-1: by a signal; dmesg says whether the kernel had no memory): what the run shows is "+
			"worth nothing", ErrGone, name, code))
	}()
}

func (d *daemon) kill() {
	if d.asked != nil {
		d.asked.Store(true)
	}
	d.proc.kill()
}

// lose ends the run with the first reason given.
func (r *Redis) lose(why error) {
	select {
	case r.lost <- why:
	default:
	}
}
