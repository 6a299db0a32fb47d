package sentinel

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
)

// line is an instance's way to the sentinels, which can be cut while the way to the servers is not.
type line struct {
	sentinels []string

	mu    sync.Mutex
	down  bool
	conns []net.Conn // to sentinels
}

func newLine(sentinels []string) *line { return &line{sentinels: sentinels} }

var errCut = errors.New("the way to the sentinels is cut")

// dial is a go-redis dialer.
func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	sentinel := slices.Contains(l.sentinels, addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	if sentinel && l.down {
		return nil, errCut
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err == nil && sentinel {
		l.conns = append(l.conns, conn)
	}
	return conn, err
}

// cut ends the way, or opens it again.
func (l *line) cut(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}
