package real

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/real/process"
	"github.com/leasestorm/leasestorm/sim/real/proxy"
	"github.com/leasestorm/leasestorm/sim/real/target"
)

// processes runs nodes as processes of this machine, each behind a line of its own.
type processes struct {
	redis *Redis
	at    netip.Addr // address of this machine on which lines and target listen
}

func (p processes) witness(_ context.Context, r *run) (*target.Target, error) {
	return target.New(p.at, r.clock, r.rec, r.cfg.Serve, r.polled, r.starve)
}

func (p processes) open(s *slot, stream uint64) (err error) {
	if p.redis.replicated == nil {
		s.way, err = proxy.New(s.name, p.at, p.redis.url.Addr, s.run.cfg.Seed, stream, s.run.starve)
	} else {
		s.way, err = p.redis.replicated.open(s, stream)
	}
	if err != nil || !s.serves() {
		return err
	}
	if s.api, s.reserved, err = redisfixture.Reserve(loopback); err != nil {
		s.way.Close()
		return fmt.Errorf("API of %s: %w", s.name, err)
	}
	return nil
}

func (p processes) launch(s *slot, stdout, stderr *os.File) (process.Program, error) {
	defer func() { _, _ = stdout.Close(), stderr.Close() }()
	argv := s.run.cfg.NodeCmd
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(surroundings(os.Environ()), s.env()...), stdout, stderr
	started, err := process.Start(p.redis.reaper, cmd, s.mark(), s.doors()...)
	if err != nil {
		return nil, err
	}
	return started, nil
}

// surroundings removes the protocol's variables: a setting from a shell would change the verdict, and no saved run would show it.
func surroundings(environ []string) []string {
	return slices.DeleteFunc(environ, func(v string) bool { return strings.HasPrefix(v, "LEASESTORM_") })
}

func (s *slot) serves() bool { return s.run.system.clients && s.run.role(s.name) != "worker" }
