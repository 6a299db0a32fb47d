package real

import (
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

// embedded is a miniredis whose clock follows real time. It demonstrates the program without a Redis server and proves no guarantee.
type embedded struct {
	m    *miniredis.Miniredis
	at   string
	stop chan struct{}
	done chan struct{}
}

const embeddedTick = 5 * time.Millisecond

func startEmbedded() (*embedded, error) {
	e := &embedded{m: miniredis.NewMiniRedis(), stop: make(chan struct{}), done: make(chan struct{})}
	if err := redisfixture.Listen(loopback, e.open); err != nil {
		return nil, fmt.Errorf("embedded Redis: %w", err)
	}
	go e.drive()
	return e, nil
}

func (e *embedded) open(addr string) error {
	err := e.m.StartAddr(addr)
	if err == nil {
		e.at = e.m.Addr()
	}
	return err
}

func (e *embedded) halt() { e.m.Close() }

func (e *embedded) resume() error { return e.open(e.at) }

func (e *embedded) drive() {
	defer close(e.done)
	last := time.Now()
	host.Every(embeddedTick, e.stop, func() {
		now := time.Now()
		e.m.FastForward(now.Sub(last))
		last = now
	})
}

func (e *embedded) addr() string { return e.at }

func (e *embedded) close() {
	close(e.stop)
	<-e.done
	e.halt()
}
