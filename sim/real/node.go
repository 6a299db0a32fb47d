package real

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/protocol"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/process"
)

// Errors of Run when a node does not start. Each is wrapped in a message with the command and the end of its log.
var (
	// ErrNodeStart: the command cannot be started (it does not exist, is not executable, …).
	ErrNodeStart = errors.New("node does not start")
	// ErrNodeExited: a node exited before it reported "ready".
	ErrNodeExited = errors.New("node ended before it was ready")
	// ErrNodeNotReady: a node did not report "ready" in time.
	ErrNodeNotReady = errors.New("node never said ready")
)

const (
	// readyWithin, plus readyWithinNode per node, bounds the wait for "ready" at the start of a run.
	readyWithin     = 10 * time.Second
	readyWithinNode = 200 * time.Millisecond
	// drainWithin bounds the reading of an ended process's output, which one of its children may hold open.
	drainWithin = 5 * time.Second
)

func (n *node) setInstance(id string) {
	n.mu.Lock()
	n.instance = id
	n.mu.Unlock()
	n.once.Do(func() { close(n.ready) })
}

func (r *run) newSlot(name string, stream uint64) (*slot, error) {
	s := &slot{run: r, name: name}
	if err := r.redis.platform.open(s, stream); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *slot) env() []string {
	c := s.run.cfg
	env := append(protocol.Timings(&c.Timings), protocol.Node(s.name, c.System, s.redisURL(), s.run.target.URL)...)
	env = append(env, redisurl.PasswordVariable+"=", redisurl.PasswordFileVariable+"=") // hide the simulator's own
	if more := s.run.system.env; more != nil {
		env = append(env, more(s)...)
	}
	if w, ok := s.conn.(*storeLines); ok {
		env = append(env, w.env...)
	}
	if w, ok := s.conn.(*proxies); ok {
		env = append(env, s.run.redis.replicated.env(w)...)
		env = append(env, protocol.Replicas(c.Replicas))
	}
	return append(env, c.NodeEnv...)
}

// mark returns the environment variable that identifies the slot's processes. They need this variable to reach Redis, and its value
// is an address that only this slot has.
func (s *slot) mark() string { return "LEASESTORM_REDIS_URL=" + s.redisURL() }

func (s *slot) redisURL() string {
	u := s.run.redis.url
	return redisURL(u.Username, u.Password, s.conn.Addr(), u.DB)
}

func (s *slot) addrs() (addrs []string) {
	w, ok := s.conn.(*proxies)
	if !ok {
		return []string{s.conn.Addr()}
	}
	for _, l := range w.lines {
		addrs = append(addrs, l.Addr())
	}
	return addrs
}

// start starts a process in the slot, unless one runs or the slot has left for good. It does not wait for "ready".
func (s *slot) start() (*node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left || s.node != nil && s.node.alive() {
		return s.node, nil
	}
	return s.spawn()
}

// spawn starts the slot's next process. mu is held.
func (s *slot) spawn() (*node, error) {
	log, err := s.logTo(os.OpenFile(s.logFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644))
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", s.name, err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		_ = log.Close()
		return nil, fmt.Errorf("output of %s: %w", s.name, err)
	}
	errOut, errIn, err := os.Pipe()
	if err != nil {
		_, _, _ = log.Close(), out.Close(), in.Close()
		return nil, fmt.Errorf("output of %s: %w", s.name, err)
	}
	p, err := s.run.redis.platform.launch(s, in, errIn)
	if err != nil {
		_, _, _ = log.Close(), out.Close(), errOut.Close()
		return nil, fmt.Errorf("%w: %s: %w", ErrNodeStart, s.run.nodeCmd(), err)
	}
	n := &node{Program: p, began: int64(p.Begun().Sub(s.run.clock.Base)), ready: make(chan struct{}), done: make(chan struct{})}
	s.node, s.frozen = n, 0
	// The node may stamp its first lines before this process knows of its start.
	s.run.rec.Add(history.Event{
		T: n.began, Kind: history.Spawned, Node: s.name, N: int64(p.ID()),
	})
	go s.attend(n, out, errOut, log)
	return n, nil
}

// logTo returns a process's log, or a null device if the disk is full: the run then loses the log and not the process.
func (s *slot) logTo(log *os.File, err error) (*os.File, error) {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return log, err
	}
	s.run.cutOff(err)
	return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
}

// keep copies standard error to the slot's log. It keeps reading when the disk is full, so that the process does not block.
func (s *slot) keep(from io.Reader, log *os.File) {
	_, _ = io.Copy(&slotLog{run: s.run, log: log}, from)
	s.run.cutOff(log.Close())
}

// slotLog drops all output after a failed write, because a reader would not notice a gap in the log.
type slotLog struct {
	run *run
	log io.Writer
}

// Write implements io.Writer. It never fails.
func (k *slotLog) Write(b []byte) (int, error) {
	if _, err := k.log.Write(b); err != nil {
		k.run.cutOff(err)
		k.log = io.Discard
	}
	return len(b), nil
}

// cutOff keeps the first error of writing a log. After this error, any log of the run may be incomplete.
func (r *shared) cutOff(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsaved = cmp.Or(r.unsaved, err)
}

func (r *run) nodeCmd() string {
	words := r.cfg.NodeCmd
	if image := r.redis.Nodes; image != "" {
		words = append([]string{image}, words...)
	}
	return strings.Join(words, " ")
}

func (s *slot) logFile() string { return filepath.Join(s.run.cfg.Logs, s.name+".log") }

func (s *slot) attend(n *node, out, errOut, log *os.File) {
	defer close(n.done)
	var both sync.WaitGroup
	both.Go(func() { protocol.Read(out, func(m protocol.Message) { s.handle(n, m) }, s.keepMalformed) })
	both.Go(func() { s.keep(errOut, log) })
	read := make(chan struct{})
	go func() {
		both.Wait()
		close(read)
	}()
	<-n.Ended()
	if p, ok := n.Program.(*process.Process); ok && p.Escaped != nil {
		s.run.abort(p.Escaped)
	}
	timer := time.NewTimer(drainWithin)
	defer timer.Stop()
	select {
	case <-read:
	case <-timer.C:
	}
	_, _ = out.Close(), errOut.Close()
	<-read
	when, code := n.End()
	e := history.Event{
		T: int64(when.Sub(s.run.clock.Base)), Kind: history.Exited, Node: s.name, N: int64(code), Instance: n.instanceID(),
	}
	s.mu.Lock()
	if n.asked {
		e.Reason = "asked"
	}
	told := n.again
	s.mu.Unlock()
	s.count(e.T)
	s.run.rec.Add(e)
	if e.Reason != "" {
		return
	}
	s.seized(n)
	then := ""
	if s.turnedAway(n, code) {
		s.run.tail.Go(func() { s.startAgain(n) })
		if told { // one note is enough; the history has each exit
			return
		}
		then = "; Redis refuses, so it is started again until it is ready"
	}
	s.run.notef("%s ended by itself with code %d: %s%s", s.name, code, s.stderrTail(), then)
}

func (n *node) alive() bool    { return !host.Closed(n.Ended()) }
func (n *node) wasReady() bool { return host.Closed(n.ready) }

func (n *node) instanceID() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.instance
}

func (s *slot) handle(n *node, m protocol.Message) {
	if m.Name == protocol.Dropped {
		s.run.abort(fmt.Errorf("%w: %s dropped %d lines because its standard output was not read for a while: give the storm more "+
			"of the machine, or fewer nodes and sessions", host.ErrNoVerdict, s.name, m.Lines))
	}
	e, ok := stamped(s.run.clock, s.name, n.began, m)
	if !ok {
		s.keepMalformed("t is not CLOCK_MONOTONIC in ns since its process began: " + m.Name + " t=" + strconv.FormatInt(m.T, 10))
	}
	if e.Kind != history.KindUnknown && e.Instance == "" {
		if e.Instance = n.instanceID(); e.Instance == "" {
			s.keepMalformed("no instance in: " + m.Name)
			return
		}
	}
	if e.Kind == history.Ready && e.N != 0 && e.N != protocol.Version {
		s.keepMalformed(fmt.Sprintf("it speaks version %d of the protocol, this program version %d", e.N, protocol.Version))
		n.foreign.Do(func() { s.run.tail.Go(n.Kill) }) // kill may wait until all output is read, which this goroutine does
		return
	}
	switch known := n.instanceID(); {
	case e.Kind == history.KindUnknown:
	case known == "" && s.run.passed(e.Instance, n):
		s.run.abort(fmt.Errorf("%w: a process of %s says %s as %q, which was one that has ended: each process has an instance ID of its own",
			host.ErrNoVerdict, s.name, m.Name, e.Instance))
	case known != "" && e.Instance != known:
		s.run.abort(fmt.Errorf("%w: a process of %s was ready as %q and said %s as %q: one process has one instance ID", host.ErrNoVerdict,
			s.name, known, m.Name, e.Instance))
	}
	s.run.owners.see(&e)
	s.run.rec.Add(e)
	if e.Kind == history.Ready {
		n.setInstance(e.Instance)
	}
	if !s.run.watch.tell(&e) && e.Kind == history.Paused {
		s.run.tail.Go(func() { s.run.rescue(s, n, e) })
	}
}

// passed records the instance ID of a process, and reports whether an earlier, ended process had the same ID.
func (r *shared) passed(id string, n *node) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.named[id], n) {
		r.named[id] = append(r.named[id], n)
	}
	return slices.ContainsFunc(r.named[id], func(other *node) bool { return other != n && !other.alive() })
}

func (s *slot) keepMalformed(shown string) {
	s.mu.Lock()
	if s.malformed++; s.malformed == 1 {
		s.firstMalformed = shown
	}
	s.mu.Unlock()
	s.run.record(history.Event{Kind: history.Malformed, Node: s.name, Reason: shown})
}

func (s *slot) malformedOutput() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.malformed == 0 {
		return ""
	}
	return fmt.Sprintf("%d lines on its standard output are none of the protocol, first %q; ", s.malformed, s.firstMalformed)
}

// tailMax bounds the end of a log that a message quotes, in bytes.
const tailMax = 1000

func (s *slot) stderrTail() string {
	f, err := os.Open(s.logFile())
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-tailMax), io.SeekStart)
	}
	tail, _ := io.ReadAll(io.LimitReader(f, tailMax)) // the log may still grow
	lines := bytes.Split(bytes.TrimSpace(tail), []byte("\n"))
	text := strings.ToValidUTF8(string(bytes.Join(lines[max(0, len(lines)-2):], []byte(" / "))), "\uFFFD")
	if text == "" {
		return "it wrote nothing to standard error"
	}
	return text
}

func redisURL(user, password, addr string, db int) string {
	u := url.URL{Scheme: "redis", Host: addr, Path: "/" + strconv.Itoa(db)}
	if user != "" || password != "" {
		u.User = url.UserPassword(user, password)
	}
	return u.String()
}

// refusals tracks when the plan makes Redis refuse writes. The zero value has no refusal. Safe for concurrent use.
type refusals struct {
	mu    sync.Mutex
	now   int
	ended time.Time
}

func (r *refusals) begin() {
	r.mu.Lock()
	r.now++
	r.mu.Unlock()
}

func (r *refusals) end() {
	r.mu.Lock()
	r.now--
	r.ended = time.Now()
	r.mu.Unlock()
}

func (r *refusals) lately(while time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now > 0 || !r.ended.IsZero() && time.Since(r.ended) < while
}

// turnedAway reports whether a process exited because the plan makes Redis refuse. A node must not start without the rights that it
// needs, and an orchestrator would restart it. After any other exit, the slot stays down.
func (s *slot) turnedAway(n *node, code int) bool {
	return code == protocol.ExitTurnedAway && n.instanceID() == "" && s.run.refusals.lately(s.run.cfg.TTL)
}

// startAgain restarts a slot whose process was turned away, as an orchestrator would. This ends soon after Redis stops refusing.
func (s *slot) startAgain(n *node) {
	if !host.Sleep(s.run.ending, s.run.cfg.TTL/10) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node != n || s.left {
		return
	}
	next, err := s.spawn()
	if err != nil {
		s.run.notef("%s is not started again: %v", s.name, err)
		return
	}
	next.again = true
}

// seized ends the run if another process listens on the address of the slot's API, because the node then could not start.
func (s *slot) seized(n *node) {
	if !s.serves() || n.wasReady() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node != n { // its successor may listen there
		return
	}
	l, err := net.Listen("tcp", s.api)
	if err == nil {
		_ = l.Close()
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		s.run.abort(fmt.Errorf("%w: somebody listens on %s, where the API of %s was until its node went down: look who (ss -ltnp)",
			host.ErrNoVerdict, s.api, s.name))
	}
}

func (r *run) running() (instances map[string]int, stay map[int]bool) {
	instances, stay = map[string]int{}, map[int]bool{}
	for _, s := range r.allSlots() {
		i, _ := fault.NodeIndex(s.name)
		s.mu.Lock()
		if n := s.node; n != nil && n.alive() {
			instances[n.instanceID()], stay[i] = i, !s.left
		}
		s.mu.Unlock()
	}
	delete(instances, "") // not ready yet
	return instances, stay
}
