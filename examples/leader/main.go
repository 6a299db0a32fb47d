// Leader is one of several processes of which only one works at a time.
//
//	REDIS_URL=redis://redis:6379 leader
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease/election"
	"github.com/leasestorm/leasestorm/lease/slogcore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("leader", "error", err)
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
	e, err := election.New(client, election.Config{Logger: slogcore.Logger(slog.NewJSONHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	return e.Run(ctx, work) // returns when ctx has ended and leadership is released
}

// work runs while this process leads: ctx ends with the leadership.
func work(ctx context.Context, fence int64) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		slog.InfoContext(ctx, "leading", "fence", fence)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
