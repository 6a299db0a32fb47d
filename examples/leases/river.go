//go:build ignore

// Command river is a lease adapter (docs/lease-protocol.md) of the leader of github.com/riverqueue/river, which alone enqueues periodic
// jobs. Its TTL is River's, 15 s. A client that has enqueued nothing for half a second does not lead. Use it with --check and one session.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type never struct{}

func (never) Kind() string { return "never" }

func main() {
	ctx, enqueued := context.Background(), atomic.Int64{}
	pool, _ := pgxpool.New(ctx, "postgres://postgres@"+os.Getenv("LEASESTORM_PROXY_POSTGRES")+"/postgres")
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	for try := 0; try == 0 || err != nil && try < 20; try++ { // others migrate too
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[never]) error { return nil }))
	note := func() (_ river.JobArgs, _ *river.InsertOpts) { enqueued.Store(time.Now().UnixNano()); return }
	job := river.NewPeriodicJob(river.PeriodicInterval(time.Second/10), note, nil)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		ID: os.Getenv("LEASESTORM_INSTANCE"), PeriodicJobs: []*river.PeriodicJob{job}, Logger: slog.New(slog.DiscardHandler),
		Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
	})
	if err != nil || client.Start(ctx) != nil {
		log.Fatal("the client does not start: ", err)
	}
	var q struct{ ID, Op any }
	for in := json.NewDecoder(os.Stdin); in.Decode(&q) == nil; {
		leads := time.Since(time.Unix(0, enqueued.Load())) < time.Second/2
		if q.Op == "release" && leads { // it resigns when it stops
			log.Print(client.Stop(ctx), client.Start(ctx))
		}
		fmt.Printf("{\"id\":%v,\"ok\":%t}\n", q.ID, leads)
	}
}
