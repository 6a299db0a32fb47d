package node

import (
	"context"
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
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/metrics"
	"github.com/leasestorm/leasestorm/lease/poll"
)

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

func (n *node) polling(client redis.UniversalClient, s *settings) (part, error) {
	lc, pc := s.lease(), s.polls
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
func speak(instance string, log zapcore.Level) (out *output, signals chan os.Signal) {
	signals = make(chan os.Signal, signalsMax)
	out = newOutput(terminal(os.Stdout), newClock(), instance, func(error) {
		select {
		case signals <- syscall.SIGPIPE:
		default:
		}
	})
	out.terse = log > zapcore.DebugLevel
	return out, signals
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
