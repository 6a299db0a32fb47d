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

// site is where the nodes of runs are: what starts them, and what is between them and Redis. Its methods are safe for concurrent use.
type site interface {
	// open finds a slot its way to Redis, and the address of its API if it has one.
	open(s *slot, stream uint64) error
	// launch starts the slot's next node. It closes what the node writes to when nobody writes there any more.
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

// processes of this machine, each behind a line of its own.
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

// surroundings are those variables of the simulator that a node gets too. What the protocol names is told by the run alone: a setting
// that happens to stand in a shell would change what is judged, and no saved run would know.
func surroundings(environ []string) []string {
	return slices.DeleteFunc(environ, func(v string) bool { return strings.HasPrefix(v, "LEASESTORM_") })
}

// serves reports whether the slot's node has an API.
func (s *slot) serves() bool { return s.run.system.clients && s.run.role(s.name) != "worker" }
