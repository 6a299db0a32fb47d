package real

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/process"
)

// server is a redis-server of the run's own. It keeps its address over restarts. Not safe for concurrent use.
type server struct {
	daemon
	binary string
	dir    string // folder of its data and its log
	addr   string
	conf   func() (string, error) // writes a settings file and returns its path; nil: none
	launch launcher
}

type launcher func(ctx context.Context, args []string, log *os.File) (process.Program, error)

// The harness has its own user with all rights, because faults take rights from the default user, which the nodes use.
const (
	harnessUser     = "leasestorm"
	harnessPassword = "leasestorm" // any is accepted (nopass)
)

const (
	serverStart = 10 * time.Second
	serverLoad  = time.Minute // for a server that loads slowly on purpose
)

func (s *server) first(ctx context.Context) error {
	return redisfixture.First(func(addr string) error {
		s.addr = addr
		return s.start(ctx)
	})
}

// start starts the server and waits until it accepts connections. With additional arguments in extra, it waits up to serverLoad.
func (s *server) start(ctx context.Context, extra ...string) error {
	host, port, _ := net.SplitHostPort(s.addr)
	// Redis passes each write to the kernel before it replies, so a kill loses no acknowledged write. An fsync would only guard against a
	// crash of the machine.
	args := append([]string{
		"--port", port, "--bind", host, "--dir", s.dir, "--daemonize", "no", "--save", "",
		"--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0",
		"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0", "--tcp-backlog", "4096",
		"--client-output-buffer-limit", "replica", "0", "0", "0", "--client-output-buffer-limit", "pubsub", "0", "0", "0",
		"--user", harnessUser, "on", "nopass", "~*", "&*", "+@all",
	}, extra...)
	if s.conf != nil {
		file, err := s.conf()
		if err != nil {
			return fmt.Errorf("settings of redis-server: %w", err)
		}
		args = append([]string{file}, args...)
	}
	within := serverStart
	if len(extra) > 0 {
		within = serverLoad
	}
	return s.run(ctx, s.binary+" on "+s.addr, s.logFile(), redisfixture.Ready, within, func(log *os.File) (process.Program, error) {
		return s.launch(ctx, args, log)
	})
}

func (s *server) logFile() string { return filepath.Join(s.dir, "redis.log") }

func (s *server) stop() {
	if s.proc != nil {
		s.kill()
	}
}

func (s *server) erase() error {
	for _, name := range []string{"appendonlydir", "appendonly.aof", dumpFile} {
		if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// msFor spreads a loading time of ms milliseconds over keys, as redis-server's delay per key in µs.
func msFor(ms int64, keys int64) string { return strconv.FormatInt(max(1, ms*1000/max(1, keys)), 10) }

type daemon struct {
	proc  process.Program
	asked *atomic.Bool // the harness ends it; nil: it never served
	lose  func(error)  // called when it ends by itself
}

// run starts the daemon with its output in a log file, waits until the log contains ready, and then watches the daemon.
func (d *daemon) run(
	ctx context.Context, name, logFile, ready string, within time.Duration, launch func(log *os.File) (process.Program, error),
) error {
	err := redisfixture.Start(ctx, logFile, ready, within, func(log *os.File) (redisfixture.Program, error) {
		p, err := launch(log)
		if err != nil { // keep the ended one: killing it again does nothing
			return redisfixture.Program{}, err
		}
		d.proc = p
		return redisfixture.Program{Ended: p.Ended(), Kill: p.Kill}, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNoServer, name, err)
	}
	d.serves(name)
	return nil
}

// serves watches a ready daemon. If the daemon ends other than by kill, the run ends, because nodes were without a Redis although
// no fault took it away.
func (d *daemon) serves(name string) {
	p, asked := d.proc, new(atomic.Bool)
	d.asked = asked
	go func() {
		<-p.Ended()
		if asked.Load() {
			return
		}
		_, code := p.End()
		d.lose(fmt.Errorf("%w: %s ended with code %d (-1: by a signal; dmesg says whether the kernel had no memory): what the run shows is "+
			"worth nothing", ErrGone, name, code))
	}()
}

func (d *daemon) kill() {
	if d.asked != nil {
		d.asked.Store(true)
	}
	d.proc.Kill()
}

// embedded is a miniredis whose clock follows real time. It demonstrates the program without a Redis server and proves no guarantee.
type embedded struct {
	m    *miniredis.Miniredis
	at   string
	stop chan struct{}
	done chan struct{}
}

const embeddedTick = 5 * time.Millisecond

func startEmbedded() (*embedded, error) {
	e := &embedded{m: miniredis.NewMiniRedis(), stop: make(chan struct{}), done: make(chan struct{})}
	if err := redisfixture.Listen(loopback, e.open); err != nil {
		return nil, fmt.Errorf("embedded Redis: %w", err)
	}
	go e.drive()
	return e, nil
}

func (e *embedded) open(addr string) error {
	err := e.m.StartAddr(addr)
	if err == nil {
		e.at = e.m.Addr()
	}
	return err
}

func (e *embedded) halt() { e.m.Close() }

func (e *embedded) resume() error { return e.open(e.at) }

func (e *embedded) drive() {
	defer close(e.done)
	last := time.Now()
	host.Every(embeddedTick, e.stop, func() {
		now := time.Now()
		e.m.FastForward(now.Sub(last))
		last = now
	})
}

func (e *embedded) addr() string { return e.at }

func (e *embedded) close() {
	close(e.stop)
	<-e.done
	e.halt()
}

// Errors of Provision. Each is wrapped in a message that names the URL and the allowed values.
var (
	// ErrChoice: the choice of Redis contradicts itself or names something unknown.
	ErrChoice = errors.New("no such Redis")
	// ErrNoServer: neither redis-server nor valkey-server is in PATH, or the server does not start.
	ErrNoServer = errors.New("no Redis server")
	// ErrNoRedis: no Redis answers at the URL.
	ErrNoRedis = errors.New("no Redis answers")
	// ErrPassword: Redis wants a password or another one, or the user lacks rights that a run needs.
	ErrPassword = errors.New("Redis refuses the password")
	// ErrReplica: the URL is that of a replica, which refuses writes.
	ErrReplica = errors.New("read-only replica")
	// ErrTooOld: Redis is older than 6.2, or than 7.0 if it has replicas.
	ErrTooOld = errors.New("Redis too old")
	// ErrNotEmpty: the database holds keys of the run's patterns, or another storm uses it.
	ErrNotEmpty = errors.New("database in use")
	// ErrGone: Redis is gone or was away, and no fault of the plan took it.
	ErrGone = errors.New("Redis went away, and not by the plan")
)

// loopback is the address on which everything listens, unless nodes run in containers.
var loopback = redisfixture.Loopback

const (
	dumpFile  = "dump.rdb"
	savedFile = "saved.rdb"
)
