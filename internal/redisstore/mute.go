package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisclient"
)

// mute records why no sentinel answers. go-redis tries each sentinel several times before it returns an error, usually after the dialer's
// deadline. So mute dials once more without a deadline and keeps the errors.
type mute struct {
	why    atomic.Pointer[string] // the sentinels' addresses and errors; nil: none known
	asking atomic.Bool
}

var errMute = errors.New("no sentinel answers")

const unreachable = "redis: all sentinels specified in configuration are unreachable: "

// reach dials. It uses nine tenths of the remaining time, so that the caller still learns why it failed.
func (m *master) reach(ctx context.Context, network, addr string) (net.Conn, error) {
	if end, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Patience(time.Until(end)))
		defer cancel()
	}
	conn, err := m.dial.within(ctx, network, addr)
	return conn, m.heard(err)
}

// heard records the outcome of a dial, and adds to its error why the sentinels do not answer.
func (m *master) heard(err error) error {
	var way *net.OpError
	if err == nil {
		m.mute.why.Store(nil)
		return nil
	}
	err = redisclient.Mask(err)
	if _, each, all := strings.Cut(err.Error(), unreachable); all && !errors.Is(err, context.DeadlineExceeded) {
		why := strings.ReplaceAll(each, "\n", "; ")
		m.mute.why.Store(&why)
	} else if !errors.Is(err, context.DeadlineExceeded) || !all && errors.As(err, &way) {
		return err // the error of the master or of the connection to it
	}
	why := m.mute.why.Load()
	if why != nil {
		return fmt.Errorf("%w: %s", errMute, *why)
	}
	if m.mute.asking.CompareAndSwap(false, true) {
		go func() {
			defer m.mute.asking.Store(false)
			m.look()
		}()
	}
	return fmt.Errorf("%w: %w", errMute, err)
}
