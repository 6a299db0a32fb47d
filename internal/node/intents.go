package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/api"
	"github.com/leasestorm/leasestorm/lease/intent/metrics"
	"github.com/leasestorm/leasestorm/lease/intent/store"
	"github.com/leasestorm/leasestorm/lease/intent/worker"
)

// wantsIntents reports whether the command line, or else the environment, selects intents.
func wantsIntents(args []string, getenv func(string) string) bool {
	if len(args) > 0 && args[0] == systemIntents {
		return true
	}
	system := getenv("LEASESTORM_SYSTEM")
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--system="); ok {
			system = value
		} else if arg == "--system" && i+1 < len(args) {
			system = args[i+1]
		}
	}
	return system == systemIntents
}

func intentsMain(args []string) (int, error) {
	run, serving := serveIntents, true
	if len(args) > 0 && args[0] == systemIntents {
		var err error
		serving = false
		if run, args, err = intentsCommand(args[1:]); err != nil {
			return 0, err
		}
	}
	s, err := parseIntents(args, os.Getenv, terminal(os.Stdout), serving)
	if errors.Is(err, errHelp) {
		return exitOK, nil
	}
	if err != nil {
		return 0, err
	}
	return run(&s)
}

type intentNode struct {
	*intentSettings
	out    *output
	client *redis.Client
	tuner  *receiver
	worker *worker.Worker // nil: only an API
	store  *store.Store
	api    *api.Handler // nil: only a worker
	failed chan error

	metrics  http.Handler
	server   *http.Server // nil: no API
	watchers *http.Server // nil: no probes or metrics
}

func serveIntents(s *intentSettings) (code int, err error) {
	client, err := s.Client("node", terminal(os.Stderr))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	for _, w := range s.warnings {
		fmt.Fprintln(terminal(os.Stderr), "node:", w)
	}
	n := &intentNode{intentSettings: s, client: client, failed: make(chan error, 2)}
	instance := lease.GenerateInstanceID()
	var signals chan os.Signal
	n.out, signals = speak(instance, s.logLevel)
	defer n.out.close()
	n.tuner = &receiver{out: n.out, instance: instance, http: httpClient()}
	n.tuner.pause.Store(s.pauseNow)
	if s.targetURL != "" {
		if n.tuner.target, err = s.target(); err != nil {
			return 0, err
		}
	}
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	defer signal.Stop(signals)
	if err := n.build(instance); err != nil {
		return 0, errors.Join(err, n.stop())
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := make(chan error, 1)
	go func() {
		defer close(started)
		started <- n.start(ctx)
	}()
	if err = n.wait(signals, started); err == nil {
		go endIfAskedTwice(signals)
	}
	cancel() // ends a start that still waits for Redis or for a host name
	if last := <-started; last != nil && !errors.Is(last, context.Canceled) {
		err = errors.Join(err, last)
	}
	if err != nil {
		return 0, errors.Join(err, n.stop())
	}
	return n.out.stopped(n.stop()), nil
}

func (n *intentNode) build(instance string) (err error) {
	registry, handler := newMetrics()
	counters, err := metrics.New(registry, intent.ADR003())
	if err != nil {
		return err
	}
	n.metrics = handler
	if n.role != roleAPI {
		n.worker, err = worker.New(n.client, worker.Config{
			Store: n.storeOptions(), InstanceID: instance, Name: n.name, Slots: n.slots, Notify: n.out.notify,
			NewPipeline: func(j worker.Job) worker.Pipeline {
				return n.tuner.pipeline(tuning{
					session: j.SessionID, service: j.Resource, slot: j.Slot, fence: j.SlotFence, serviceFence: j.ResourceFence,
				})
			},
			SingleWriter: n.singleWriter, Observer: counters, Logger: logger(&n.settings),
		})
		if err != nil {
			return err
		}
	}
	if n.role == roleWorker {
		return nil
	}
	if n.store, err = store.New(n.client, n.storeOptions()); err != nil {
		return err
	}
	c := api.Config{Names: intent.ADR003(), Tokens: n.tokens, TrustedProxies: n.proxies, LeaseFirst: n.apiLeases, Observer: counters,
		Logger: logger(&n.settings), Quotas: n.quotas}
	if n.healthAddr == "" {
		c.Metrics = n.metrics
	}
	n.api, err = api.NewHandler(n.store, c)
	return err
}

// start starts the worker before the API, so that an accepted intent runs at once. A worker waits for Redis until ctx ends.
func (n *intentNode) start(ctx context.Context) (err error) {
	var ready http.Handler
	if n.api != nil {
		ready = n.api
	}
	if n.watchers, err = n.watch(ctx, n.metrics, n.health, ready, n.failed); err != nil {
		return err
	}
	if n.worker != nil {
		if err := n.worker.Start(ctx); errors.Is(err, worker.ErrOtherWorker) {
			return fmt.Errorf("--single-writer: %w", err)
		} else if err != nil {
			return err
		}
	}
	if n.api != nil {
		if n.tokenFile != nil && n.tokenFile.stays {
			go n.tokenFile.watch(ctx, n.api.SetTokens, logger(&n.settings))
		}
		n.server, err = serveAt(ctx, n.apiAddr, "LEASESTORM_API_ADDR (--api)", n.api, n.conns, n.failed)
	}
	return err
}

func (n *intentNode) health() lease.Health {
	if n.worker != nil {
		return n.worker.Health()
	}
	return lease.Health{State: lease.HealthOK}
}

// wait returns nil on a stop signal, even before the node is ready.
func (n *intentNode) wait(signals <-chan os.Signal, started <-chan error) error {
	for {
		select {
		case err := <-started:
			if err != nil {
				return err
			}
			started = nil
			n.out.say(line{event: "ready", at: time.Now()})
		case sig := <-signals:
			if sig != syscall.SIGUSR1 {
				return nil
			}
			n.tuner.pause.Store(true)
		case err := <-n.failed:
			return err
		}
	}
}

func (n *intentNode) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), apiStopWithin)
	defer cancel()
	n.api.Flush(ctx)
}

// stop first refuses new intents, then ends the running ones.
func (n *intentNode) stop() (err error) {
	shut(n.server)
	defer shut(n.watchers)
	if n.api != nil {
		defer n.flush()
	}
	if n.worker != nil {
		err = n.worker.Stop()
	}
	if n.store != nil {
		err = errors.Join(err, n.store.Close())
	}
	n.tuner.http.CloseIdleConnections()
	return err
}

// ofDeadLetter has the commands for one dead letter.
var ofDeadLetter = map[string]func(s *intentSettings, id string) (int, error){"requeue": requeueDeadLetter, "drop": dropDeadLetter}

func intentsCommand(args []string) (run func(*intentSettings) (int, error), rest []string, err error) {
	const usage = "the commands are: node intents bootstrap; node intents quarantine 30s; node intents replicas 2; " +
		"node intents dead-letters list|requeue ID|drop ID"
	words := args
	if i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") }); i >= 0 {
		words = args[:i]
	}
	rest = args[len(words):]
	if slices.Contains(rest, "--help") || slices.Contains(rest, "-h") {
		return listDeadLetters, []string{"--help"}, nil // help never runs
	}
	switch {
	case len(words) == 1 && words[0] == "bootstrap":
		return func(s *intentSettings) (int, error) { return bootstrap(&s.settings, s.storeOptions()) }, rest, nil
	case len(words) == 2 && words[0] == "quarantine":
		length, _, err := quarantineLength(words[1:])
		return func(s *intentSettings) (int, error) { return setQuarantine(&s.settings, s.storeOptions(), length) }, rest, err
	case len(words) == 2 && words[0] == "replicas":
		n, _, err := replicasCount(words[1:])
		return func(s *intentSettings) (int, error) {
			s.leases.Replicas = n
			return setReplicas(&s.settings, s.storeOptions())
		}, rest, err
	case len(words) == 2 && words[0] == "dead-letters" && words[1] == "list":
		return listDeadLetters, rest, nil
	case len(words) == 3 && words[0] == "dead-letters" && ofDeadLetter[words[1]] != nil:
		return func(s *intentSettings) (int, error) { return ofDeadLetter[words[1]](s, words[2]) }, rest, nil
	}
	return nil, nil, fmt.Errorf("%s: %s", strings.Join(append([]string{"intents"}, words...), " "), usage)
}
