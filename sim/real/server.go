package real

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// server is a redis-server of the run's own. It keeps its address over restarts. Not safe for concurrent use.
type server struct {
	daemon
	binary string // for messages
	dir    string // with its log, which a server in a container does not see: it could put a link in its place
	files  string // with its data: dir, or for a server in a container a folder in it
	data   string // files, as the server sees it
	addr   string
	socket string                 // in dir, where only this user reaches it, instead of addr; "": the engine keeps addr from everybody
	secret string                 // password of harnessUser, drawn at the first start
	conf   func() (string, error) // writes a file with more settings and names it; nil: there are none
	launch launcher
}

// launcher starts a redis-server with arguments. What it writes goes to log.
type launcher func(ctx context.Context, args []string, log *os.File) (program, error)

// launchProcess starts it as a process.
func (r *Redis) launchProcess(binary string) launcher {
	return func(_ context.Context, args []string, log *os.File) (program, error) {
		cmd := exec.Command(binary, args...)
		cmd.Stdout, cmd.Stderr = log, log
		p, err := startProcess(r.spawner, r.reaper, cmd)
		if err != nil {
			return nil, err
		}
		return p, nil
	}
}

// harnessUser is the harness' own user of such a server, with every right: from the default user, who the nodes are, an ACL may take
// some.
const harnessUser = "leasestorm"

// hashed is how an ACL has a password.
func hashed(secret string) string { return fmt.Sprintf("#%x", sha256.Sum256([]byte(secret))) }

// users are the arguments that make both. The password shows as its hash only in the process list.
func (s *server) users() []string {
	if s.secret == "" {
		s.secret = rand.Text()
	}
	return []string{
		"--user", harnessUser, "on", hashed(s.secret), "~*", "&*", "+@all", "--user", "default", "on", "nopass", "~*", "&*", "+@all",
	}
}

const (
	serverStart = 10 * time.Second
	serverLoad  = time.Minute // of one that is made to load slowly
)

// first starts the server on a free port.
func (s *server) first(ctx context.Context) error {
	if len(s.socket) > socketMax {
		return fmt.Errorf("%w: %s is too long for a socket in it: set TMPDIR to a folder with a shorter name", ErrNoServer, s.dir)
	}
	return listenLow(loopback, func(addr string) error {
		l, err := net.Listen("tcp", addr) // for if something else answers there, it must not be taken for the server
		if err != nil {
			return err
		}
		_ = l.Close()
		s.addr = addr
		return s.start(ctx)
	})
}

// start starts the server with what its folder holds and waits until it takes connections. extra are more arguments.
func (s *server) start(ctx context.Context, extra ...string) error {
	host, port, _ := net.SplitHostPort(s.addr)
	// A write is in the kernel before its answer is sent, so that a killed server has all it answered for; an fsync would
	// protect against the machine's death only.
	var socket []string
	if s.socket != "" {
		socket = []string{"--unixsocket", s.socket, "--unixsocketperm", "700"}
	}
	args := append([]string{
		"--port", port, "--bind", host, "--dir", s.data, "--daemonize", "no", "--save", "",
		"--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0",
		"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0", "--tcp-backlog", "4096",
		// Who may write large values would have Redis end the connections of others by them.
		"--client-output-buffer-limit", "replica", "0", "0", "0", "--client-output-buffer-limit", "pubsub", "0", "0", "0",
	}, slices.Concat(socket, s.users(), extra)...)
	if s.conf != nil {
		file, err := s.conf()
		if err != nil {
			return fmt.Errorf("settings of redis-server: %w", err)
		}
		args = append([]string{file}, args...)
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("log of redis-server: %w", err)
	}
	defer func() { _ = log.Close() }()
	before, _ := log.Seek(0, 2)
	proc, err := s.launch(ctx, args, log)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNoServer, s.binary, err) // the one that has ended stays: whoever ends it again does nothing
	}
	s.proc = proc
	within := serverStart
	if len(extra) > 0 {
		within = serverLoad
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		reply, err := pingOnce(s.reached())
		if err == nil && !strings.HasPrefix(reply, "-LOADING") && !closed(s.proc.ended()) { // else it is another server's answer
			s.serves(s.binary + " on " + s.addr)
			return nil
		}
		select {
		case <-s.proc.ended():
			return s.failed(before)
		case <-ctx.Done():
			s.proc.kill()
			return fmt.Errorf("%w: %s on %s does not answer: %w", ErrNoServer, s.binary, s.addr, context.Cause(ctx))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// reached returns by what the harness reaches it. While a server is down anybody may take its port, and would be told the password of
// harnessUser. Its socket is made when it has the port.
func (s *server) reached() endpoint {
	if s.socket != "" {
		return endpoint{"unix", s.socket}
	}
	return endpoint{"tcp", s.addr}
}

func (s *server) logFile() string { return filepath.Join(s.dir, "redis.log") }

// failed says why a server ended, in the words of its log.
func (s *server) failed(offset int64) error {
	said, err := lastWords(s.logFile(), offset)
	if err != nil {
		return err
	}
	_, code := s.proc.end()
	return fmt.Errorf("%w: %s ended at once with code %d: %s", ErrNoServer, s.binary, code, said)
}

// lastWords returns what a server or a sentinel that ended wrote last to its log, or errPortTaken.
func lastWords(logFile string, offset int64) (string, error) {
	text := tailOf(logFile, offset, failedMax)
	if bytes.Contains(text, []byte("Address already in use")) {
		return "", errPortTaken
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1], nil
}

// failedMax is how much of what a server said is looked at when it has ended: an image may be anybody's, and says what it likes.
const failedMax = 64 << 10

// tailOf returns what a file has behind offset, the last so many bytes of it.
func tailOf(file string, offset, most int64) []byte {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(max(offset, size-most), io.SeekStart)
	}
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(f, most))
	return text
}

// stop ends the server for good.
func (s *server) stop() {
	if s.proc != nil {
		s.kill()
	}
}

// erase forgets the data of a server that is not running.
func (s *server) erase() error {
	for _, name := range []string{"appendonlydir", "appendonly.aof", dumpFile} {
		if err := os.RemoveAll(filepath.Join(s.files, name)); err != nil {
			return err
		}
	}
	return nil
}

// pingOnce returns the first line that Redis there answers to PING, on a connection of its own.
func pingOnce(at endpoint) (string, error) {
	c, err := net.DialTimeout(at.network, at.addr, time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return "", err
	}
	var line []byte
	var b [256]byte
	for !bytes.HasSuffix(line, []byte("\r\n")) {
		n, err := c.Read(b[:])
		if err != nil {
			return "", err
		}
		line = append(line, b[:n]...)
	}
	return string(line), nil
}

// msFor spreads a load of ms milliseconds over keys: redis-server's delay per key, in µs.
func msFor(ms int64, keys int64) string { return strconv.FormatInt(max(1, ms*1000/max(1, keys)), 10) }
