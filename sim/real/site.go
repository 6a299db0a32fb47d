package real

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// site is where nodes run: it starts them and connects them to Redis. Its methods are safe for concurrent use.
type site interface {
	// open gives a slot its way to Redis, and the address of its API if it has one.
	open(s *slot, stream uint64) error
	// launch starts the slot's next node. It closes stdout and stderr at the end of all output.
	launch(s *slot, stdout, stderr *os.File) (program, error)
	// witness returns the target of a run.
	witness(ctx context.Context, r *run) (*target, error)
}

// way is one node's way to Redis. Its methods are safe for concurrent use.
type way interface {
	addr() string
	apply(fault int, e effect) error // beside what other faults do to it
	heal(fault int) error
	sent() int64 // commands since it was asked last
	close()
}

// processes runs nodes as processes of this machine, each behind a line of its own.
type processes struct {
	redis *Redis
	at    netip.Addr // of this machine, where lines and target listen
}

func (p processes) witness(_ context.Context, r *run) (*target, error) { return r.serve(p.at) }

func (p processes) open(s *slot, stream uint64) (err error) {
	if p.redis.replicated == nil {
		s.way, err = newLine(s.name, p.at, p.redis.url.Addr, s.run.cfg.Seed, stream, s.run.starve)
	} else {
		s.way, err = p.redis.replicated.open(s, stream)
	}
	if err != nil || !s.serves() {
		return err
	}
	if err := s.reserve(); err != nil {
		s.way.close()
		return fmt.Errorf("API of %s: %w", s.name, err)
	}
	return nil
}

func (p processes) launch(s *slot, stdout, stderr *os.File) (program, error) {
	defer func() { _, _ = stdout.Close(), stderr.Close() }()
	argv := s.run.cfg.NodeCmd
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(surroundings(os.Environ()), s.env()...), stdout, stderr
	started, err := startProcess(p.redis.reaper, cmd, s.mark(), s.doors()...)
	if err != nil {
		return nil, err
	}
	return started, nil
}

// surroundings filters the simulator's environment for nodes. Variables of the protocol come from the run alone: a setting from a shell
// would change the verdict, and no saved run would show it.
func surroundings(environ []string) []string {
	return slices.DeleteFunc(environ, func(v string) bool { return strings.HasPrefix(v, "LEASESTORM_") })
}

func (s *slot) serves() bool { return s.run.system.clients && s.run.role(s.name) != "worker" }
