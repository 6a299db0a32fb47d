package real

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/process"
)

// ownStore is a store that the run starts. Faults that kill, restart, empty or freeze Redis do the same to it. Not safe for concurrent use.
type ownStore struct {
	daemon
	Store
	reserved io.Closer // keeps other runs away from its address
	dir      string    // folder of its data
	log      string
	reaper   *process.Reaper
}

// startStores starts the stores with a command and sets their addresses. closeStores must be called, also after an error.
func (r *Redis) startStores(ctx context.Context, cfg *Config) error {
	cfg.Stores = slices.Clone(cfg.Stores)
	for i := range cfg.Stores {
		store := &cfg.Stores[i]
		if len(store.Command) == 0 {
			continue
		}
		s := &ownStore{daemon: daemon{lose: r.lose}, reaper: r.reaper, log: filepath.Join(cfg.Logs, store.Name+".log")}
		var err error
		if s.dir, err = r.folder(host.Memory()); err != nil {
			return err
		}
		if store.Addr, s.reserved, err = redisfixture.Reserve(loopback); err != nil {
			return fmt.Errorf("store %s: %w", store.Name, err)
		}
		s.Store = *store
		r.stores = append(r.stores, s)
		if err := s.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *Redis) closeStores() {
	for _, s := range r.stores {
		if s.proc != nil {
			s.kill()
		}
		_ = s.reserved.Close()
	}
	r.stores = nil
}

// storeStart is how long a store may take until it accepts connections: its first start may create its files.
const storeStart = time.Minute

var errStoreEnded = errors.New("it ended")

// start starts the store and waits until it accepts connections.
func (s *ownStore) start(ctx context.Context) error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("log of store %s: %w", s.Name, err)
	}
	defer func() { _ = log.Close() }()
	_, port, _ := net.SplitHostPort(s.Addr)
	cmd := exec.Command(s.Command[0], s.Command[1:]...)
	cmd.Env = append(os.Environ(), "DATA="+s.dir, "PORT="+port)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := process.Start(s.reaper, cmd, "")
	if err != nil {
		return fmt.Errorf("store %s: %w", s.Name, err)
	}
	s.proc, s.asked = p, nil
	within, cancel := context.WithTimeout(ctx, storeStart)
	defer cancel()
	ctx, end := context.WithCancelCause(within)
	defer end(nil)
	go func() {
		select {
		case <-p.Ended():
			end(errStoreEnded)
		case <-ctx.Done():
		}
	}()
	err = redisfixture.Await(ctx, func(ctx context.Context) bool {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("store %s does not accept connections at 127.0.0.1:$PORT (%s): %w; see %s", s.Name, s.Addr, err, s.log)
	}
	s.serves("store " + s.Name)
	return nil
}

const (
	restartTries = 20
	restartAfter = 100 * time.Millisecond
)

// restart starts a killed store. Its former processes, which the kernel may still be ending, can make it fail a few times.
func (s *ownStore) restart(ctx context.Context) error {
	err := s.start(ctx)
	for try := 1; errors.Is(err, errStoreEnded) && try < restartTries && host.Sleep(ctx.Done(), restartAfter); try++ {
		err = s.start(ctx)
	}
	return err
}

// kill kills the store. It is frozen first, so that it starts no process that outlives it.
func (s *ownStore) kill() {
	_ = s.proc.Freeze()
	s.daemon.kill()
}

// erase deletes the data of a killed store.
func (s *ownStore) erase() error {
	return errors.Join(os.RemoveAll(s.dir), os.Mkdir(s.dir, 0o700))
}

// programs returns the processes of Redis and of the stores. The caller has the turn.
func (r *Redis) programs() []process.Program {
	all := []process.Program{r.server.proc}
	for _, s := range r.stores {
		all = append(all, s.proc)
	}
	return all
}
