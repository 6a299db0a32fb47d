// Package redistest starts redis-server for tests: each server has its own port on 127.0.0.1 and its own directory, and
// ends with the test, also when the test is killed (on Linux). Nothing outside of tests may import it.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
)

// startTimeout bounds the wait for a server to be ready or to end.
const startTimeout = 20 * time.Second

// Option adds to the server's command line.
type Option func(*Server)

// AppendOnly makes every write durable before it is answered, so that Restart(false) loses nothing.
func AppendOnly() Option { return Args("--appendonly", "yes", "--appendfsync", "always") }

// Cluster starts a cluster of this one server, which owns all slots.
func Cluster() Option {
	return func(s *Server) {
		s.cluster = true
		s.args = append(s.args, "--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
	}
}

// Password makes the server want one. Client and ClusterClient give it.
func Password(password string) Option {
	return func(s *Server) {
		s.password = password
		s.args = append(s.args, "--requirepass", password)
	}
}

// Args appends arguments of redis-server, in command line form ("--maxmemory", "2mb").
func Args(args ...string) Option {
	return func(s *Server) { s.args = append(s.args, args...) }
}

// Server is a redis-server that belongs to one test. Its methods fail the test instead of returning errors. They must
// not be called at the same time, except Addr, URL and the clients.
type Server struct {
	t         testing.TB
	binary    string
	dir       string
	port      uint16
	args      []string
	cluster   bool
	password  string
	unused    bool       // a store may take it for new
	sentinel  string     // configuration file, if it is one
	authority *authority // of its certificate; nil: it speaks no TLS
	cmd       *exec.Cmd  // of proc
	proc      redisfixture.Program
	hand      *redis.Client // of Do
	node      redisfixture.Node
}

// Start starts a server and waits until it answers. Without redis-server in PATH the test is skipped, except in CI
// (environment variable CI=true), where it fails.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := &Server{t: t, binary: find(t), dir: t.TempDir()}
	for _, o := range opts {
		o(s)
	}
	return s.start(redisfixture.Ready)
}

func (s *Server) start(ready string) *Server {
	t := s.t
	t.Helper()
	t.Cleanup(s.Kill)
	err := redisfixture.First(func(addr string) error {
		s.port = netip.MustParseAddrPort(addr).Port()
		return s.spawn(ready)
	})
	if err != nil {
		t.Fatalf("redistest: start redis-server: %v", err)
	}
	s.hand = s.Client()
	s.node = redisfixture.Node{
		Client: func() *redis.Client { return s.hand }, Port: int(s.port), Bus: int(s.port) + redisfixture.BusOffset,
	}
	s.formCluster()
	s.use()
	return s
}

// use runs a script, so that a store does not take the server for new, however slowly the test gets there.
func (s *Server) use() {
	if !s.unused && s.sentinel == "" {
		_ = s.hand.Eval(context.Background(), "return 1", nil).Err() // a server without EVAL was never used by a store
	}
}

func find(t testing.TB) string {
	t.Helper()
	path, err := redisfixture.Find()
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("redistest: %v, and CI=true wants it tested", err)
	}
	if err != nil {
		t.Skipf("redistest: %v", err)
	}
	return path
}

// Addr returns host:port. It stays the same over Restart.
func (s *Server) Addr() string { return netip.AddrPortFrom(redisfixture.Loopback, s.port).String() }

// URL returns the server's redis:// URL, of TLS rediss://.
func (s *Server) URL() string { return s.UserURL("", s.password) }

// UserURL is URL for a user and a password.
func (s *Server) UserURL(user, password string) string {
	u := url.URL{Scheme: "redis", Host: s.Addr()}
	if s.authority != nil {
		u.Scheme = "rediss"
	}
	if password != "" {
		u.User = url.UserPassword(user, password)
	}
	return u.String()
}

func (s *Server) options() *redis.Options {
	return &redis.Options{
		Addr: s.Addr(), Password: s.password, TLSConfig: s.authority.config(), ContextTimeoutEnabled: true, MaxRetries: -1,
	}
}

// IsCluster reports whether the server was started with Cluster.
func (s *Server) IsCluster() bool { return s.cluster }

// Client returns a new client that honours deadlines of contexts and does not retry; the test closes
// it at its end.
func (s *Server) Client() *redis.Client {
	c := redis.NewClient(s.options())
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// ClusterClient returns a new cluster client; the test closes it at its end. The server must have been started with
// Cluster.
func (s *Server) ClusterClient() *redis.ClusterClient {
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr()}, Password: s.password})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Do runs one command and returns its reply. All go over one connection for as long as it lasts: a new one for each costs
// more than most tests do besides.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	v, err := s.hand.Do(ctx, args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.t.Fatalf("redistest: %v: %v", args, err)
	}
	return v
}

// Flush deletes all keys.
func (s *Server) Flush() {
	s.t.Helper()
	s.Do("FLUSHALL")
}

// ReadOnly makes the server refuse writes (-READONLY), as a replica whose master is away; reads and expiry go on. A
// cluster cannot.
func (s *Server) ReadOnly() {
	s.t.Helper()
	s.Do("REPLICAOF", "127.0.0.1", "1") // nobody listens there
}

// Writable ends ReadOnly.
func (s *Server) Writable() {
	s.t.Helper()
	s.Do("REPLICAOF", "NO", "ONE")
}

// Kill ends the server at once (SIGKILL) and returns when it is gone. What was not written to disk is lost.
func (s *Server) Kill() {
	if s.proc.Kill != nil {
		s.proc.Kill()
	}
}

// Freeze stops the server's process (SIGSTOP): it accepts connections and answers nothing until Thaw.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("redistest: signal redis-server: %v", err)
	}
}

// Restart kills the server if it runs and starts it again at the same address, with another run_id: empty, or with
// what it has on disk (everything with AppendOnly, else what was last saved with the command SAVE).
func (s *Server) Restart(empty bool) {
	s.t.Helper()
	s.Kill()
	if empty {
		s.wipe()
	}
	if err := s.spawn(redisfixture.Ready); err != nil {
		s.t.Fatalf("redistest: restart redis-server: %v", err)
	}
	s.formCluster()
	s.use()
}

// RestartLoading saves, kills and starts the server again so slowly that it answers -LOADING for some time: about
// delay for each of its keys. It returns while the server loads.
func (s *Server) RestartLoading(delay time.Duration) {
	s.t.Helper()
	s.Do("SAVE")
	s.Kill()
	// The file of AppendOnly is read without answering anybody.
	err := s.spawn(redisfixture.Loading, "--appendonly", "no",
		"--key-load-delay", strconv.FormatInt(delay.Microseconds(), 10),
		"--loading-process-events-interval-bytes", "1024")
	if err != nil {
		s.t.Fatalf("redistest: restart redis-server: %v", err)
	}
}

func (s *Server) wipe() {
	s.t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(s.dir, e.Name())); err != nil {
			s.t.Fatalf("redistest: %v", err)
		}
	}
}

// Unused has a store take the server for new if nothing in it shows otherwise.
func Unused() Option { return func(s *Server) { s.unused = true } }

// Age waits until the server has run for two seconds, so that a new one needs no quarantine of a second.
func (s *Server) Age() {
	s.t.Helper()
	for young := true; young; {
		s.hand.BLPop(context.Background(), 100*time.Millisecond, "nothing")
		info := s.Do("INFO", "server").(string)
		young = strings.Contains(info, "uptime_in_seconds:0\r") || strings.Contains(info, "uptime_in_seconds:1\r")
	}
}

func (s *Server) formCluster() {
	if !s.cluster {
		return
	}
	if strings.Contains(fmt.Sprint(s.Do("CLUSTER", "INFO")), "cluster_slots_assigned:0") {
		s.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	}
	// Redis lets two seconds pass before a master with slots serves them.
	await(s.t, "a cluster of one that serves", func() bool {
		return strings.Contains(fmt.Sprint(s.Do("CLUSTER", "INFO")), "cluster_state:ok")
	})
}

// spawn starts the server and waits until it says ready.
func (s *Server) spawn(ready string, extra ...string) error {
	port := strconv.Itoa(int(s.port))
	args := []string{
		"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--daemonize", "no", "--repl-diskless-sync-delay", "0",
	}
	if s.sentinel != "" {
		args = []string{s.sentinel, "--sentinel", "--port", port, "--bind", "127.0.0.1", "--dir", s.dir}
	}
	args = slices.Concat(args, s.authority.args(port), s.args, extra)
	return redisfixture.Start(context.Background(), filepath.Join(s.dir, "redis.log"), ready, startTimeout,
		func(log *os.File) (p redisfixture.Program, err error) {
			s.cmd = exec.Command(s.binary, args...)
			s.cmd.Stdout, s.cmd.Stderr = log, log
			s.proc, err = redisfixture.Run(s.cmd)
			return s.proc, err
		})
}
