package real

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// server is a redis-server of the run's own. It keeps its address over restarts. Not safe for concurrent use.
type server struct {
	binary string // for messages
	dir    string // with its data and log
	data   string // dir, as the server sees it
	addr   string
	secret string // password of harnessUser, drawn at the first start
	launch launcher
	proc   program
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

// nodeRights are those of the default user, who has no password: the nodes, and whoever else reaches the port. It may do anything with
// data, and nothing with files, modules and users of the process, which is this user's own: before Redis 7 it could write any file.
func nodeRights() []any {
	return []any{"+@all", "-config", "-module", "-debug", "-acl", "-replicaof", "-slaveof", "-failover", "-shutdown"}
}

// users are the arguments that make both. The password shows as its hash only in the process list.
func (s *server) users() []string {
	if s.secret == "" {
		s.secret = rand.Text()
	}
	args := []string{"--user", harnessUser, "on", fmt.Sprintf("#%x", sha256.Sum256([]byte(s.secret))), "~*", "&*", "+@all",
		"--user", "default", "on", "nopass", "~*", "&*"}
	for _, right := range nodeRights() {
		args = append(args, right.(string))
	}
	return args
}

const (
	serverStart = 10 * time.Second
	serverLoad  = time.Minute // of one that is made to load slowly
)

// first starts the server on a free port.
func (s *server) first(ctx context.Context) error {
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
	args := append([]string{
		"--port", port, "--bind", host, "--dir", s.data, "--daemonize", "no", "--save", "",
		"--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0",
		"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0", "--tcp-backlog", "4096",
	}, append(s.users(), extra...)...)
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("log of redis-server: %w", err)
	}
	defer func() { _ = log.Close() }()
	before, _ := log.Seek(0, 2)
	if s.proc, err = s.launch(ctx, args, log); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNoServer, s.binary, err)
	}
	within := serverStart
	if len(extra) > 0 {
		within = serverLoad
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		reply, err := pingOnce(s.addr)
		if err == nil && !strings.HasPrefix(reply, "-LOADING") && s.proc.alive() { // else it is another server's answer
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

func (s *server) logFile() string { return filepath.Join(s.dir, "redis.log") }

// failed says why a server ended, in the words of its log.
func (s *server) failed(offset int64) error {
	_, code := s.proc.end()
	text, _ := os.ReadFile(s.logFile())
	text = text[min(int(offset), len(text)):]
	if bytes.Contains(text, []byte("Address already in use")) {
		return errPortTaken
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("%w: %s ended at once with code %d: %s", ErrNoServer, s.binary, code, lines[len(lines)-1])
}

// kill ends the server as a crash does.
func (s *server) kill() { s.proc.kill() }

// stop ends the server for good.
func (s *server) stop() {
	if s.proc != nil {
		s.proc.kill()
	}
}

// erase forgets the data of a server that is not running.
func (s *server) erase() error {
	for _, name := range []string{"appendonlydir", "appendonly.aof", "dump.rdb"} {
		if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// pingOnce returns the first line that Redis at addr answers to PING, on a connection of its own.
func pingOnce(addr string) (string, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
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
