// Package node is the reference node: the library and the node protocol. It uses only the public packages of lease.
package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/internal/version"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/metrics"
	"github.com/leasestorm/leasestorm/lease/poll"
)

const (
	exitOK    = 0
	exitDirty = 1 // not everything was released
	exitWrong = 3 // a setting or the Redis is wrong
)

// Main runs a node until it stops, and returns the exit code.
func Main(args []string) int {
	if len(args) > 0 && args[0] == "--version" {
		fmt.Println("node", version.String())
		return exitOK
	}
	redis.SetLogger(&logging.VoidLogger{}) // calls return its errors
	signal.Ignore(syscall.SIGPIPE)         // a node without a reader must still release its leases
	if len(args) > 0 && args[0] == "health" {
		return ended(askHealth(args[1:]))
	}
	if wantsIntents(args, os.Getenv) {
		return ended(intentsMain(args))
	}
	run, args, err := command(args)
	if err != nil {
		return ended(0, err)
	}
	s, err := parse(args, os.Getenv, terminal(os.Stdout))
	if errors.Is(err, errHelp) {
		return exitOK
	}
	if err == nil {
		var code int
		if code, err = run(&s); err == nil {
			return code
		}
	}
	return ended(0, err)
}

// command returns the function that the first arguments select, and the remaining flags.
func command(args []string) (run func(*settings) (int, error), rest []string, err error) {
	switch {
	case len(args) > 0 && args[0] == "bootstrap":
		return func(s *settings) (int, error) { return bootstrap(s, s.fleet()) }, args[1:], nil
	case len(args) > 0 && args[0] == "quarantine":
		length, rest, err := quarantineLength(args[1:])
		return func(s *settings) (int, error) { return setQuarantine(s, s.fleet(), length) }, rest, err
	case len(args) > 0 && args[0] == "replicas":
		n, rest, err := replicasCount(args[1:])
		return func(s *settings) (int, error) {
			s.replicas = n
			return setReplicas(s, s.fleet())
		}, rest, err
	}
	return serve, args, nil
}

func ended(code int, err error) int {
	if err == nil {
		return code
	}
	complain(err)
	return exitWrong
}

// complain prints an error on standard error. It escapes quoted arguments, which may have a password or move the terminal's cursor. It
// waits at most one second, so that a node without a reader can end.
func complain(err error) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		fmt.Fprintln(terminal(os.Stderr), "node:", plain.Text(redisurl.Hide(err.Error())))
	}()
	select {
	case <-said:
	case <-time.After(time.Second):
	}
}

// terminal escapes control characters for a file that may be a terminal. The escapes do not change the meaning of JSON.
func terminal(f *os.File) io.Writer { return &plain.Writer{To: f} }

func bootstrap(s *settings, fleet admin.Fleet) (int, error) {
	if err := s.operate(func(ctx context.Context, client redis.UniversalClient) error {
		return admin.Bootstrap(ctx, client, fleet)
	}); err != nil {
		return 0, err
	}
	fmt.Fprintf(terminal(os.Stderr), "node: declared the first deployment; leases are granted now, and to waiting nodes within a "+
		"third of a TTL; the quarantine is %v, for TTLs up to that (--ttl)\n", s.ttl)
	return exitOK, nil
}

// systems are the systems that nodes share. Intents are a separate program with its own settings.
var systems = map[string]func(n *node, client redis.UniversalClient, s *settings) (part, error){
	systemPolling:  (*node).polling,
	systemElection: (*node).election,
}

type node struct {
	out      *output
	counters *prometheus.Registry // nil: nobody reads them
	instance string
	target   *url.URL
	http     *http.Client
	pause    atomic.Bool // the next poll stops the process between check and send
}

type part interface {
	Start(ctx context.Context) error
	Stop() error
	Health() lease.Health
}

func serve(s *settings) (int, error) {
	target, err := s.target()
	if err != nil {
		return 0, err
	}
	client, err := s.Universal("node", terminal(os.Stderr))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	n := &node{instance: lease.GenerateInstanceID(), target: target, http: httpClient()}
	n.pause.Store(s.pauseNow)
	var signals chan os.Signal
	if n.out, signals, err = speak(n.instance, s.logLevel); err != nil {
		return 0, err
	}
	defer n.out.close()
	var handler http.Handler
	if s.healthAddr != "" {
		n.counters, handler = newMetrics()
	}
	p, err := systems[s.system](n, client, s)
	if err != nil {
		return 0, err
	}
	server, err := s.watch(context.Background(), handler, p.Health, nil, make(chan error, 1))
	if err != nil {
		return 0, err
	}
	defer shut(server)
	return n.live(p, signals)
}

func (n *node) polling(client redis.UniversalClient, s *settings) (part, error) {
	lc, pc := s.lease(), s.poll()
	lc.InstanceID, lc.Logger = n.instance, logger(s)
	pc.Poll, pc.Notify = n.poll, n.out.notify
	if n.counters == nil {
		return poll.New(client, lc, pc)
	}
	var err error
	if pc.Poll, err = metrics.Poll(n.counters, n.poll); err != nil {
		return nil, err
	}
	m, err := poll.New(client, lc, pc)
	if err == nil {
		_, err = metrics.Watch(n.counters, m.Leases())
	}
	return m, err
}

func (n *node) live(p part, signals chan os.Signal) (int, error) {
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	defer signal.Stop(signals)
	if err := p.Start(context.Background()); err != nil {
		return 0, err
	}
	n.out.say(line{event: "ready", at: time.Now()})
	for sig := range signals {
		if sig != syscall.SIGUSR1 {
			break
		}
		n.pause.Store(true)
	}
	go endIfAskedTwice(signals)
	err := p.Stop()
	n.http.CloseIdleConnections()
	return n.out.stopped(err), nil
}

const signalsMax = 8

// speak returns the writer of the protocol, and a channel of signals. SIGPIPE means that the reader of the protocol has ended.
func speak(instance string, log zapcore.Level) (out *output, signals chan os.Signal, err error) {
	clock, err := newClock()
	if err != nil {
		return nil, nil, fmt.Errorf("read CLOCK_MONOTONIC: %w", err)
	}
	signals = make(chan os.Signal, signalsMax)
	out = newOutput(terminal(os.Stdout), clock, instance, func(error) {
		select {
		case signals <- syscall.SIGPIPE:
		default:
		}
	})
	out.terse = log > zapcore.DebugLevel
	return out, signals, nil
}

func endIfAskedTwice(signals <-chan os.Signal) {
	for sig := range signals {
		if sig == syscall.SIGTERM || sig == syscall.SIGINT {
			os.Exit(exitDirty)
		}
	}
}

func logger(s *settings) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(enc), zapcore.Lock(zapcore.AddSync(terminal(os.Stderr))), s.logLevel))
	if s.name != "" {
		log = log.With(zap.String("node", s.name))
	}
	return log
}

// httpClient keeps a connection for each concurrent poll. Buffers are small because many nodes share a machine. A poll's context bounds
// its requests.
func httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		MaxIdleConns:        64,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     30 * time.Second,
		ReadBufferSize:      2048,
		WriteBufferSize:     2048,
		DisableCompression:  true,
	}}
}

var said = map[lease.EventKind]string{
	lease.EventAcquired: "acquired", lease.EventRenewing: "renewStart", lease.EventRenewed: "renewed",
	lease.EventUncertain: "renewFailed", lease.EventLost: "lost", lease.EventReleased: "released",
	lease.EventAcquireFailed: "acquireFailed",
}

// notify writes the node's belief in a lease before anything follows from it. It writes a repeated failure only if the log has it (G12).
func (o *output) notify(e lease.Event) {
	if l, ok := leaseLine(&e); ok && !(e.Repeated && o.terse) {
		o.say(l)
	}
}

func leaseLine(e *lease.Event) (line, bool) {
	name, ok := said[e.Kind]
	l := line{event: name, session: e.Name, fence: e.Fence, at: e.At, reason: e.Reason}
	if e.Kind == lease.EventAcquired || e.Kind == lease.EventRenewed {
		l.until = e.Until
	}
	return l, ok
}

// errFenced means that the target has seen a higher fence, because another instance polls the session.
var errFenced = fmt.Errorf("fenced off: %w", poll.ErrFenced)

func (n *node) poll(ctx context.Context, s poll.Session) (err error) {
	n.out.say(line{event: "pollStart", session: s.ID, fence: s.Fence, at: s.Began})
	stop := context.AfterFunc(ctx, func() {
		n.out.say(line{event: "pollCancelled", session: s.ID, fence: s.Fence, at: time.Now(),
			reason: context.Cause(ctx).Error()})
	})
	defer func() {
		stop()
		l := line{event: "pollEnd", session: s.ID, fence: s.Fence, at: time.Now()}
		if err != nil {
			l.reason = err.Error()
		}
		n.out.say(l)
	}()
	if n.pause.CompareAndSwap(true, false) {
		return n.pausedPoll(ctx, s)
	}
	return n.send(ctx, s)
}

const selfStop = 50 * time.Millisecond

// pause announces that the process stops itself, and stops it. It returns when the process continues.
func (o *output) pause(session string, fence int64) error {
	o.say(line{event: "paused", session: session, fence: fence, at: time.Now()})
	o.flush()
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	// With several threads, the process may stop a moment after the call has returned.
	<-time.After(selfStop)
	return nil
}

// pausedPoll stops the process after the check, and sends once the process continues. No lease can prevent that send. Only a fence can
// make it harmless. The send ignores ctx, as if the process had frozen during the write.
func (n *node) pausedPoll(ctx context.Context, s poll.Session) error {
	if err := n.out.pause(s.ID, s.Fence); err != nil {
		return err
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return n.send(late, s)
}

func (n *node) send(ctx context.Context, s poll.Session) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.target.JoinPath("poll", s.ID).String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("X-Instance", n.instance)
	req.Header.Set("X-Fence", fmt.Sprint(s.Fence))
	resp, err := n.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // allows reuse of the connection
	if resp.StatusCode == http.StatusConflict {
		return errFenced
	}
	return failed("target", resp)
}

func failed(what string, r *http.Response) error {
	if r.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s answered %d", what, r.StatusCode)
	}
	return nil
}
