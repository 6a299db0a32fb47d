// Worker carries out the intents that an API has accepted, each under the leases of its resource and of a slot.
//
//	REDIS_URL=redis://redis:6379 worker
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease/intent/worker"
	"github.com/leasestorm/leasestorm/lease/slogcore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("worker", "error", err)
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
	w, err := worker.New(client, worker.Config{
		Slots:       []string{"gpu-1", "gpu-2"},
		NewPipeline: func(j worker.Job) worker.Pipeline { return &pipeline{job: j, asked: make(chan struct{})} },
		Logger:      slogcore.Logger(slog.NewJSONHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	return w.Run(ctx) // until a signal; then pipelines are stopped, and their leases released
}

// pipeline is the work of one session. This one does nothing until Stop.
type pipeline struct {
	job   worker.Job
	once  sync.Once
	asked chan struct{}
}

func (p *pipeline) Start(ctx context.Context, fence int64) error {
	slog.InfoContext(ctx, "started", "session", p.job.SessionID, "slot", p.job.Slot, "fence", fence)
	context.AfterFunc(ctx, p.Stop) // the trust in a lease ends, and so does the work
	return nil
}

func (p *pipeline) Wait() error {
	<-p.asked
	return nil
}

func (p *pipeline) Stop() { p.once.Do(func() { close(p.asked) }) }
