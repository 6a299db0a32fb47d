// Poller shares the sessions in Redis (session:<uuid>) with the other pollers, and polls its own share. It stops cleanly and serves
// readiness and metrics.
//
//	REDIS_URL=rediss://poller:password@redis:6379 HTTP_ADDR=:9100 poller
package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/metrics"
	"github.com/leasestorm/leasestorm/lease/poll"
	"github.com/leasestorm/leasestorm/lease/slogcore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("poller", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		return errors.New("REDIS_URL is not set, or not a URL such as redis://127.0.0.1:6379") // ParseURL's error may hold the password
	}
	client := redis.NewClient(options)
	defer client.Close()

	f, err := metrics.Poll(prometheus.DefaultRegisterer, once)
	if err != nil {
		return err
	}
	log := slogcore.Logger(slog.NewJSONHandler(os.Stderr, nil))
	config := lease.Config{TTL: 30 * time.Second, Logger: log}
	if after, err := time.ParseDuration(os.Getenv("BREAK_AFTER")); err == nil {
		config.Hooks = []redis.Hook{&deaf{from: time.Now().Add(after)}}
	}
	m, err := poll.New(client, config, poll.Config{Poll: f, Interval: 5 * time.Second})
	if err != nil {
		return err
	}
	if _, err := metrics.Watch(prometheus.DefaultRegisterer, m.Leases()); err != nil {
		return err
	}
	http.Handle("/metrics", promhttp.Handler())
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if h := m.Health(); !h.OK() {
			http.Error(w, h.String(), http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Addr: os.Getenv("HTTP_ADDR"), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("metrics are not served", "error", err)
		}
	}()
	defer server.Close()
	return m.Run(ctx) // until a signal; then polls end, and leases are released
}

// once polls one session. It must send the fence with every write, so that the target can refuse an outdated owner.
func once(ctx context.Context, s poll.Session) error {
	slog.InfoContext(ctx, "polled", "session", s.ID, "fence", s.Fence)
	return nil
}
