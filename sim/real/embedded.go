package real

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
)

// embedded is a miniredis whose time is driven, for machines without a Redis server. It shows the program at work; no
// guarantee is proven on it.
type embedded struct {
	m    *miniredis.Miniredis
	at   string // where it listens, once it has
	stop chan struct{}
	done chan struct{}

	listener net.Listener
	leading  sync.WaitGroup // connections from the listener to miniredis
}

// embeddedTick is how often TTLs pass.
const embeddedTick = 5 * time.Millisecond

func startEmbedded() (*embedded, error) {
	e := &embedded{m: miniredis.NewMiniRedis(), stop: make(chan struct{}), done: make(chan struct{})}
	if err := listenLow(loopback, e.open); err != nil {
		return nil, fmt.Errorf("embedded Redis: %w", err)
	}
	go e.drive()
	return e, nil
}

// open has miniredis serve who comes to the address. It has no listener of its own: what is asked passes a guard first, because a request
// of 31 bytes can end the process by a panic.
func (e *embedded) open(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	first, err := e.m.Dial() // starts it
	if err != nil {
		return errors.Join(err, l.Close())
	}
	_ = first.Close()
	e.at, e.listener = l.Addr().String(), l
	mini := e.m.Server()
	mini.SetPreHook(tooMuchRoom)
	e.leading.Go(func() {
		for {
			switch c, err := l.Accept(); {
			case err == nil:
				mini.ServeConn(&asking{Conn: c})
			case errors.Is(err, net.ErrClosed):
				return
			default:
				time.Sleep(acceptAgain)
			}
		}
	})
	return nil
}

// tooMuchRoom refuses commands that make room for as many bytes as they name, which no lease needs.
func tooMuchRoom(c *miniserver.Peer, cmd string, _ ...string) bool {
	if cmd != "SETRANGE" && cmd != "SETBIT" {
		return false
	}
	c.WriteError("ERR the embedded Redis has no " + cmd)
	return true
}

// halt ends all connections. What it holds stays.
func (e *embedded) halt() {
	_ = e.listener.Close()
	e.leading.Wait()
	e.m.Close()
}

// resume opens it again where it was.
func (e *embedded) resume() error { return e.open(e.at) }

func (e *embedded) drive() {
	defer close(e.done)
	tick := time.NewTicker(embeddedTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-e.stop:
			return
		case <-tick.C:
			now := time.Now()
			e.m.FastForward(now.Sub(last))
			last = now
		}
	}
}

func (e *embedded) addr() string { return e.at }

func (e *embedded) close() {
	close(e.stop)
	<-e.done
	e.halt()
}
