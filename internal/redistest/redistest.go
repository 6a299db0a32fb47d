// Package redistest starts redis-server for tests: each server has its own port on 127.0.0.1 and its own directory, and
// ends with the test, also when the test is killed (on Linux). Nothing outside of tests may import it.
package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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
	port      int
	args      []string
	cluster   bool
	password  string
	sentinel  string     // configuration file, if it is one
	authority *authority // of its certificate; nil: it speaks no TLS
	proc      *process
	hand      *redis.Client // of Do
}

// Start starts a server and waits until it answers. Without redis-server in PATH the test is skipped, except in CI
// (environment variable CI=true), where it fails.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := &Server{t: t, binary: find(t), dir: t.TempDir()}
	for _, o := range opts {
		o(s)
	}
	return s.start("Ready to accept connections")
}

func (s *Server) start(ready string) *Server {
	t := s.t
	t.Helper()
	t.Cleanup(func() {
		if s.proc != nil {
			s.proc.kill()
		}
	})
	// A port may be taken between the choice and the start; then the server says so and another is tried.
	var err error
	for range 10 {
		if s.port, err = freePort(); err != nil {
			break
		}
		if s.proc, err = s.spawn(ready); err == nil {
			s.hand = s.Client()
			s.formCluster()
			return s
		}
	}
	t.Fatalf("redistest: start redis-server: %v", err)
	return nil
}

func find(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("redistest: no redis-server in PATH, and CI=true wants it tested")
	}
	t.Skip("redistest: no redis-server in PATH")
	return ""
}

// freePort chooses below the usual range of ephemeral ports, so that no outgoing connection takes the port while the
// server is down between Kill and Restart; and low enough for the cluster bus, which listens 10,000 above.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := 15_000 + rand.IntN(7_000)
		var l net.Listener
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if l, err = new(net.ListenConfig).Listen(context.Background(), "tcp", addr); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}

// Addr returns host:port. It stays the same over Restart.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

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
	if s.proc != nil {
		s.proc.kill()
		s.proc = nil
	}
}

// Freeze stops the server's process (SIGSTOP): it accepts connections and answers nothing until Thaw.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.proc.cmd.Process.Signal(sig); err != nil {
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
	var err error
	if s.proc, err = s.spawn("Ready to accept connections"); err != nil {
		s.t.Fatalf("redistest: restart redis-server: %v", err)
	}
	s.formCluster()
}

// RestartLoading saves, kills and starts the server again so slowly that it answers -LOADING for some time: about
// delay for each of its keys. It returns while the server loads.
func (s *Server) RestartLoading(delay time.Duration) {
	s.t.Helper()
	s.Do("SAVE")
	s.Kill()
	var err error
	// The file of AppendOnly is read without answering anybody.
	s.proc, err = s.spawn("Server initialized", "--appendonly", "no",
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

func (s *Server) formCluster() {
	if !s.cluster {
		return
	}
	if strings.Contains(fmt.Sprint(s.Do("CLUSTER", "INFO")), "cluster_slots_assigned:0") {
		s.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	}
	// Redis lets two seconds pass before a master with slots serves them.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range int(startTimeout / (20 * time.Millisecond)) {
		if strings.Contains(fmt.Sprint(s.Do("CLUSTER", "INFO")), "cluster_state:ok") {
			return
		}
		<-tick.C
	}
	s.t.Fatal("redistest: the cluster of one did not form")
}

// process is one running redis-server.
type process struct {
	cmd  *exec.Cmd
	out  *output
	done chan struct{} // closed when it has ended
}

func (s *Server) spawn(ready string, extra ...string) (*process, error) {
	args := []string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--daemonize", "no",
		"--repl-diskless-sync-delay", "0",
	}
	if s.sentinel != "" {
		args = []string{s.sentinel, "--sentinel", "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir}
	}
	args = slices.Concat(args, s.authority.args(s.port), s.args, extra)
	p := &process{
		cmd:  exec.CommandContext(context.Background(), s.binary, args...),
		out:  &output{want: []byte(ready), ready: make(chan struct{})},
		done: make(chan struct{}),
	}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = sysProcAttr()
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-p.out.ready:
		return p, nil
	case <-p.done:
		return nil, fmt.Errorf("%s ended: %s", s.binary, p.out.tail())
	case <-timeout.C:
		p.kill()
		return nil, fmt.Errorf("%s was not ready within %v: %s", s.binary, startTimeout, p.out.tail())
	}
}

// run starts the process and waits for it on one thread of its own: the kernel kills a child with a parent-death signal
// when the thread that started it ends, so that thread must live as long as the child.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait()
	close(p.done)
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// output keeps what the server says and tells when it says that it is ready.
type output struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	want  []byte
	ready chan struct{}
	said  bool
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(p)
	if !o.said && bytes.Contains(o.buf.Bytes(), o.want) {
		o.said = true
		close(o.ready)
	}
	return len(p), nil
}

func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.buf.Bytes()
	return string(b[max(0, len(b)-600):])
}
