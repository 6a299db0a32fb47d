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

// mute is what is known of sentinels of which none answers. go-redis tries each several times and has no error before that, which mostly is
// later than the deadline of who dials; so it is asked once more, without a deadline, for what it says of each.
type mute struct {
	why    atomic.Pointer[string] // their addresses, each with the error; nil: they answer, as far as is known
	asking atomic.Bool
}

// errMute is what a dial ends with that no sentinel has told in time where the master is.
var errMute = errors.New("no sentinel answers")

// unreachable begins go-redis' error where it has tried all sentinels.
const unreachable = "redis: all sentinels specified in configuration are unreachable: "

// reach dials. Of the time that there is it uses nine tenths, so that whoever waits still hears why it was in vain; go-redis may go on for
// longer, and what comes of that is closed.
func (m *master) reach(ctx context.Context, network, addr string) (net.Conn, error) {
	if end, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Patience(time.Until(end)))
		defer cancel()
	}
	conn, err := m.dial.within(ctx, network, addr)
	return conn, m.heard(err)
}

// heard takes what became of a dial, and returns its error with what is known of the sentinels.
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
		return err // the way to the master, or its words
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
