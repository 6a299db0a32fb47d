package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// shell runs a core. One loop owns the core, a few workers send its requests, one goroutine receives notices, and one writes the
// log while there are entries. Call the methods of the shell itself only from outside the loop.
type shell struct {
	*instance
	hub       hub
	table     table
	diagnosis diagnosis
	source    source
	requests  requests
	announcer announcer
	callers   callers
	asks      asks
	loop      loop
}

func newShell(client redis.UniversalClient, cfg ManagerConfig, keeper bool) (*shell, error) {
	log := zaplog.NewLog(cfg.Logger, cfg.InstanceID)
	cfg.Logger = log.Logger
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	st, err := redisstore.New(client, cfg.store())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	s := startShell(st, cfg, keeper)
	s.log = log
	s.opened(client, st)
	return s, nil
}

// startShell makes a shell of a validated configuration. Nothing runs before start.
func startShell(st store, cfg ManagerConfig, keeper bool) *shell {
	cc := cfg.core()
	cc.Place, cc.NoHeartbeat = cfg.Sessions != nil, keeper
	in := newInstance(st, cfg, keeper)
	s := &shell{instance: in}
	s.table = table{in: in, counts: newRenewals()}
	s.diagnosis = newDiagnosis(in, &s.table)
	s.source = source{instance: in, diagnosis: &s.diagnosis, last: core.NewSessions(nil)}
	s.requests = requests{instance: in, source: &s.source, outside: make(chan struct{}, outsideMax)}
	s.announcer = announcer{instance: in, table: &s.table, diagnosis: &s.diagnosis, hub: &s.hub}
	s.callers = callers{instance: in, table: &s.table, diagnosis: &s.diagnosis, step: s.loop.step, later: s.loop.later}
	s.callers.waiters.Shared = !keeper
	s.asks = asks{instance: in, table: &s.table, requests: &s.requests, giveBack: s.loop.giveBack}
	s.loop = loop{instance: in, table: &s.table, diagnosis: &s.diagnosis, announcer: &s.announcer, callers: &s.callers,
		requests: &s.requests, asks: &s.asks, core: core.New(cc), drained: make(chan struct{})}
	return s
}

// opened registers this instance with lease/leasetest, if a test uses it.
func (s *shell) opened(client redis.UniversalClient, st *redisstore.Store) {
	if inner.Made == nil {
		return
	}
	prefix := st.Options().LeasePrefix
	inner.Made(client, inner.Instance{
		Renew: func(key string) {
			if name, ours := strings.CutPrefix(key, prefix); ours {
				s.event(core.Event{Kind: core.EvRenew, ID: name})
			}
		},
		Fence: func(key string) int64 {
			name, ours := strings.CutPrefix(key, prefix)
			if h := s.table.get(name); ours && h != nil && h.Valid() {
				return h.fence
			}
			return 0
		},
		Bootstrap: func(ctx context.Context) error { return st.Bootstrap(ctx) },
	})
}

func (s *shell) start(ctx context.Context) error {
	return s.life.Start(ErrStopped, func() error { return s.begin(ctx) })
}

func (s *shell) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.diagnosis.check(ctx); err != nil {
		return err
	}
	s.requests.start()
	s.workers.Go(func() { s.store.Subscribe(s.ctx, s.cfg.RenewInterval, s.heard, s.diagnosis.subscribed) })
	s.workers.Go(s.loop.run)
	s.workers.Go(s.diagnosis.watch)
	if s.cfg.Replicas > 0 {
		s.workers.Go(s.diagnosis.countReplicas)
	}
	s.event(core.Event{Kind: core.EvStart})
	return nil
}

func (s *shell) run(ctx context.Context) error { return s.life.Run(ctx, s.start, s.stop) }

// stop ends everything. Every call waits for the end and returns the same error.
func (s *shell) stop() error { return s.life.Stop(s.end) }

func (s *shell) end(begun bool) error {
	if !begun {
		s.state.Store(int32(stateStopped))
		s.hub.close()
		s.cancel()
		return s.store.Close()
	}
	s.post(s.loop.drain)
	timer := time.NewTimer(s.cfg.DrainTimeout)
	defer timer.Stop()
	select {
	case <-s.loop.drained:
	case <-timer.C:
	}
	last, cancel := context.WithTimeout(context.Background(), lastWait)
	defer cancel()
	var err error
	if left := s.leave(last); left != "" {
		err = s.leftBehind(left)
	}
	s.cancel()
	s.requests.close()
	s.inbox.close()
	err = cmp.Or(err, s.store.Close()) // ends the requests in flight, so Stop does not wait for a silent Redis
	stuck := s.ended(last)
	s.state.Store(int32(stateStopped))
	s.hub.close()
	return errors.Join(err, stuck, s.log.Flushed(last, errStuck))
}

// leave gives up the remaining leases and pending releases, and returns their names.
func (s *shell) leave(last context.Context) string {
	unconfirmed := make(chan string, 1)
	s.post(func() { unconfirmed <- s.loop.finish() })
	select {
	case left := <-unconfirmed:
		return left
	case <-last.Done():
		return "an unknown number of leases" // the loop is stuck, so nothing more is known
	}
}

// ended waits for the loop and for the requests in flight, whose connections are closed.
func (s *shell) ended(last context.Context) error {
	all := make(chan struct{})
	go func() {
		s.workers.Wait()
		close(all)
	}()
	select {
	case <-all:
		return nil
	case <-last.Done():
	}
	what, since := s.log.Calls.Late(time.Now().Add(TTLMax)) // regardless of the time that a call may take
	return fmt.Errorf("%w: %s, since %s", errStuck, what, stamp(since))
}

// leftBehind is the error of a stop that did not release every lease. left names the unreleased leases.
func (s *shell) leftBehind(left string) error {
	err := fmt.Errorf("stopped after %v with %s; the remaining leases expire within %v", s.cfg.DrainTimeout, left, s.cfg.TTL)
	if left == unconfirmedReleases { // otherwise Redis is not the reason
		if f := s.diagnosis.failure(core.OpRelease); f.err != nil {
			return unconfirmed{fmt.Errorf("%w: %w", err, f.err)}
		}
		err = fmt.Errorf("%w: %w", err, errUnknown)
	}
	return unconfirmed{err}
}
