package leasetest_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/election"
	"github.com/leasestorm/leasestorm/lease/leasetest"
	"github.com/leasestorm/leasestorm/lease/poll"
)

// silent is a Redis that accepts, and from when it is set says nothing.
type silent struct{ atomic.Bool }

// before has a Redis say nothing from when s is set, on old connections and on new ones.
func (s *silent) before(r *leasetest.Redis) {
	o := r.Client().Options()
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &silenced{conn, s}, err
	}
}

type silenced struct {
	net.Conn
	by *silent
}

func (c *silenced) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.by.Load() {
			return n, err
		}
	}
}

// unhurried is a system that does not wait long for what it gives back, and how long its Stop may last.
type unhurried struct {
	start func(context.Context) error
	stop  func() error
	most  time.Duration
}

const drain = time.Millisecond

var unhurriedSystems = map[string]func(*redis.Client) (unhurried, error){
	"manager": func(c *redis.Client) (unhurried, error) {
		m, err := lease.New(c, lease.Config{Logger: zap.NewNop(), DrainTimeout: drain, Sessions: func(context.Context) ([]string, error) {
			return []string{good}, nil
		}})
		return unhurried{m.Start, m.Stop, drain}, err
	},
	"poller": func(c *redis.Client) (unhurried, error) {
		m, err := poll.New(c, lease.Config{Logger: zap.NewNop(), DrainTimeout: drain}, poll.Config{
			Poll: func(context.Context, poll.Session) error { return nil }})
		return unhurried{m.Start, m.Stop, drain}, err
	},
	"member": func(c *redis.Client) (unhurried, error) {
		e, err := election.New(c, election.Config{Logger: zap.NewNop(), DrainTimeout: drain})
		return unhurried{e.Start, e.Stop, 2*drain + lease.TTLDefault/10}, err
	},
}

// TestStopAtASilentRedis: Stop lasts as long as it says, whatever is under way, and blames no callback that has returned.
func TestStopAtASilentRedis(t *testing.T) {
	for name, make := range unhurriedSystems {
		for _, always := range []bool{true, false} {
			for after := time.Duration(0); after < lease.TTLDefault; after += 1400 * time.Millisecond {
				synctest.Test(t, func(t *testing.T) {
					r, says := bootstrapped(t), &silent{}
					must(t, r.Client().Set(t.Context(), "session:"+good, `{"id":"`+good+`","isPaused":false}`, 0).Err(), func() error {
						return election.Bootstrap(t.Context(), r.Client(), election.Config{})
					})
					says.before(r)
					says.Store(always)
					s, err := make(r.Client())
					must(t, err, func() error { return s.start(t.Context()) })
					if !always {
						pass(lease.TTLDefault)
						says.Store(true)
					}
					pass(after)
					began := time.Now()
					err = s.stop()
					if took := time.Since(began); took > s.most || errors.Is(err, lease.ErrStuck) {
						t.Errorf("%s, silent from the start (%v) and for %v: stopped after %v: %v", name, always, after, took, err)
					}
				})
			}
		}
	}
}
