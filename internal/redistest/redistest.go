// Package redistest starts redis-server for tests. Each server has its own port and directory. It ends with the test, on Linux even if
// the test is killed. Only tests may import this package.
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

const startTimeout = 20 * time.Second

// Option changes the configuration of a server.
type Option func(*Server)

// AppendOnly makes every write durable before it is acknowledged, so that Restart(false) loses nothing.
func AppendOnly() Option { return Args("--appendonly", "yes", "--appendfsync", "always") }

// Cluster makes the server a cluster of its own that owns all slots.
func Cluster() Option {
	return func(s *Server) {
		s.cluster = true
		s.args = append(s.args, "--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
	}
}

// Password makes the server require a password, which Client and ClusterClient send.
func Password(password string) Option {
	return func(s *Server) {
		s.password = password
		s.args = append(s.args, "--requirepass", password)
	}
}

// TLS makes the server accept only TLS, with a certificate of its own authority. Other packages' clients need SSL_CERT_FILE.
func TLS() Option {
	return func(s *Server) { s.authority = newAuthority(s.t) }
}

// Args appends command-line arguments of redis-server, such as "--maxmemory", "2mb".
func Args(args ...string) Option {
	return func(s *Server) { s.args = append(s.args, args...) }
}

// Server is a test's redis-server. Its methods fail the test on errors. Only Addr, URL and the clients are safe for concurrent use.
type Server struct {
	t         testing.TB
	binary    string
	dir       string
	port      uint16
	args      []string
	cluster   bool
	password  string
	unused    bool       // a store may consider it new
	sentinel  string     // configuration file of a sentinel; "": a server
	authority *authority // nil: no TLS
	cmd       *exec.Cmd
	proc      redisfixture.Program
	hand      *redis.Client
	node      redisfixture.Node
}

// Start starts a server and waits until it answers. Without redis-server in PATH it skips the test, or fails it if CI=true.
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

// use runs a script, so that no store considers the server new, even if the test reaches the store late.
func (s *Server) use() {
	if !s.unused && s.sentinel == "" {
		_ = s.hand.Eval(context.Background(), "return 1", nil).Err() // fails without EVAL; no store can have used such a server
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

// Addr returns host:port, which stays the same over Restart.
func (s *Server) Addr() string { return netip.AddrPortFrom(redisfixture.Loopback, s.port).String() }

// URL returns the server's URL: redis://, or rediss:// with TLS.
func (s *Server) URL() string { return s.UserURL("", s.password) }

// UserURL returns URL with a user and a password.
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

// CAFile returns the file of the authority's certificate.
func (s *Server) CAFile() string { return s.authority.path("ca") }

// Certify gives a TLS server a new certificate that expires at until. Existing connections continue.
func (s *Server) Certify(until time.Time) {
	s.t.Helper()
	s.authority.certify(until)
	s.Do("CONFIG", "SET", "tls-cert-file", s.authority.path("server"))
}

// IsCluster reports whether the server was started with Cluster.
func (s *Server) IsCluster() bool { return s.cluster }

// Client returns a new client that honours deadlines of contexts and does not retry. The test closes it at its end.
func (s *Server) Client() *redis.Client {
	c := redis.NewClient(s.options())
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// ClusterClient returns a new cluster client of a server started with Cluster. The test closes it at its end.
func (s *Server) ClusterClient() *redis.ClusterClient {
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr()}, Password: s.password})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Do runs one command and returns its reply. All calls share one connection, because a new one costs more than most tests.
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

// ReadOnly makes the server refuse writes with -READONLY, like a replica. Reads and expiry continue. It fails in a cluster.
func (s *Server) ReadOnly() {
	s.t.Helper()
	s.Do("REPLICAOF", "127.0.0.1", "1")
}

// Writable ends ReadOnly.
func (s *Server) Writable() {
	s.t.Helper()
	s.Do("REPLICAOF", "NO", "ONE")
}

// Kill kills the server (SIGKILL) and waits for its end. Unsaved data is lost.
func (s *Server) Kill() {
	if s.proc.Kill != nil {
		s.proc.Kill()
	}
}

// Freeze stops the server's process (SIGSTOP). It accepts connections but does not reply until Thaw.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("redistest: signal redis-server: %v", err)
	}
}

// Restart kills the server if it runs, and starts it at the same address with a new run_id. Unless empty, it has its data on disk:
// everything with AppendOnly, else the data of the last SAVE.
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

// RestartLoading saves and restarts the server so that loading takes about delay per key. It returns while the server replies -LOADING.
func (s *Server) RestartLoading(delay time.Duration) {
	s.t.Helper()
	s.Do("SAVE")
	s.Kill()
	// Redis does not reply at all while it reads an append-only file.
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

// Unused makes a store consider the server new unless its data shows otherwise.
func Unused() Option { return func(s *Server) { s.unused = true } }

// Age waits until the server's uptime is two seconds, so that a new server needs no quarantine of a second.
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
	// A master with slots serves them two seconds after its start.
	Eventually(s.t, "a cluster of one that serves", func() bool {
		return strings.Contains(fmt.Sprint(s.Do("CLUSTER", "INFO")), "cluster_state:ok")
	})
}

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

// Eventually polls so until it returns true, and fails the test if that takes more than two minutes.
func Eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	if err := redisfixture.Await(context.Background(), func(context.Context) bool { return so() }); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
