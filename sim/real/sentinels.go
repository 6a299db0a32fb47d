package real

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/real/process"
)

func (p *replicated) startSentinel(ctx context.Context, folder string) (*sentinel, error) {
	s := &sentinel{daemon: daemon{lose: p.redis.lose}}
	conf, logFile := filepath.Join(folder, "sentinel.conf"), filepath.Join(folder, "redis.log")
	err := redisfixture.First(func(addr string) error {
		host, port, _ := net.SplitHostPort(addr)
		text := fmt.Sprintf("bind %s\nport %s\ndir %q\n", host, port, folder)
		for _, set := range []string{
			fmt.Sprintf("monitor %s %s %d %d", masterName, loopback, p.members[0].door.Port(), sentinelCount/2+1),
			fmt.Sprintf("down-after-milliseconds %s %d", masterName, sentinelDown.Milliseconds()),
			fmt.Sprintf("failover-timeout %s %d", masterName, sentinelRetry.Milliseconds()),
			fmt.Sprintf("parallel-syncs %s %d", masterName, len(p.members)),
		} {
			text += "sentinel " + set + "\n"
		}
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			return err
		}
		s.addr = addr
		return s.run(ctx, "a sentinel on "+addr, logFile, redisfixture.Watching, serverStart, func(log *os.File) (process.Program, error) {
			return p.redis.launchProcess(p.members[0].binary)(ctx, []string{conf, "--sentinel"}, log)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("sentinel: %w", err)
	}
	o := adminOptions(&redis.Options{Addr: s.addr})
	o.ReadTimeout, o.DialTimeout = sentinelAnswer, sentinelAnswer
	s.client = redis.NewSentinelClient(o)
	return s, nil
}

// says returns the master's address according to the sentinel; "" if it does not answer.
func (s *sentinel) says(ctx context.Context) string {
	where, err := s.client.GetMasterAddrByName(ctx, masterName).Result()
	if err != nil || len(where) != 2 {
		return ""
	}
	return net.JoinHostPort(where[0], where[1])
}

// settled reports whether the sentinel sees the other sentinels, a healthy master and this number of healthy replicas.
func (s *sentinel) settled(ctx context.Context, replicas int) bool {
	master, err := s.client.Master(ctx, masterName).Result()
	if err != nil || master["flags"] != "master" || master["num-other-sentinels"] != fmt.Sprint(sentinelCount-1) {
		return false
	}
	all, err := s.client.Replicas(ctx, masterName).Result()
	if err != nil || len(all) != replicas {
		return false
	}
	for _, one := range all {
		if one["flags"] != "slave" || one["master-link-status"] != "ok" {
			return false
		}
	}
	return true
}

// failOver requests a failover and returns nil once it has begun. force lets a cluster's replica skip the consent of its master.
func (p *replicated) failOver(ctx context.Context, force bool) error {
	if p.cluster != nil {
		return p.replace(ctx, force)
	}
	var err error
	for _, s := range p.sentinels {
		if err = s.client.Failover(ctx, masterName).Err(); err == nil {
			return nil
		}
	}
	return err
}

func (s *sentinel) stop() {
	if s.client != nil {
		_ = s.client.Close()
	}
	s.kill()
}
