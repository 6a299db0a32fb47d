package node

import (
	"cmp"
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease/election"
	"github.com/leasestorm/leasestorm/lease/metrics"
	"github.com/leasestorm/leasestorm/lease/poll"
)

// members returns the settings of a member that shares its election with the Sovereign library's.
func (s *settings) members() election.Config {
	cfg := election.Sovereign()
	cfg.LeaderKey = cmp.Or(s.leaderKey, cfg.LeaderKey)
	cfg.HeartbeatPrefix = cmp.Or(s.leases.NodePrefix, cfg.HeartbeatPrefix)
	cfg.EpochKey = cmp.Or(s.leases.EpochKey, cfg.EpochKey)
	cfg.LeaderTTL, cfg.ElectionInterval, cfg.HeartbeatInterval, cfg.StartDelayMax = s.leases.TTL, s.election, s.heartbeat, s.startDelay
	cfg.RenewInterval, cfg.OpTimeout, cfg.DrainTimeout = s.leases.RenewInterval, s.leases.OpTimeout, s.polls.DrainTimeout
	cfg.RenewLogLevel, cfg.Replicas = &s.renewals, s.leases.Replicas
	return cfg
}

// elected takes part in one election, and writes to the target while it leads.
type elected struct {
	*election.Election
	n                 *node
	interval, timeout time.Duration
	ended             chan struct{}
}

func (n *node) election(client redis.UniversalClient, s *settings) (part, error) {
	cfg := s.members()
	cfg.InstanceID, cfg.Logger, cfg.Notify, cfg.Observe = n.instance, logger(s), n.out.notify, n.observe
	e, err := election.New(client, cfg)
	if err != nil {
		return nil, err
	}
	if n.counters != nil {
		if _, err := metrics.Election(n.counters, e); err != nil {
			return nil, err
		}
	}
	p := &elected{Election: e, n: n, interval: s.polls.Interval, timeout: s.polls.Timeout, ended: make(chan struct{})}
	if p.timeout == 0 {
		p.timeout = s.leases.TTL / 3
	}
	return p, nil
}

func (p *elected) Start(ctx context.Context) error {
	if err := p.Election.Start(ctx); err != nil {
		return err
	}
	go func() {
		defer close(p.ended)
		_ = p.Run(ctx, p.reign) // reign never fails, and Stop returns its own error
	}()
	return nil
}

func (p *elected) Stop() error {
	err := p.Election.Stop()
	<-p.ended
	return err
}

func (p *elected) reign(ctx context.Context, fence int64) error {
	tick := time.NewTicker(p.interval)
	defer tick.Stop()
	for {
		if began := time.Now(); p.IsLeader() {
			p.write(ctx, poll.Session{ID: p.Key(), Fence: fence, Began: began})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *elected) write(ctx context.Context, s poll.Session) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	_ = p.n.poll(ctx, s) // poll reports its outcome itself
}

func (n *node) observe(e election.Event) {
	l := line{event: e.Kind.String(), session: e.Election, fence: e.Fence, at: e.At, reason: e.Reason}
	switch e.Kind {
	case election.EventStateChanged:
		l.from, l.to = e.From.String(), e.To.String()
	case election.EventLeaderChanged:
		l.event, l.leader = "leading", e.Leader
	}
	n.out.say(l)
}
