package worker_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/api"
	"github.com/leasestorm/leasestorm/lease/intent/store"
	"github.com/leasestorm/leasestorm/lease/intent/worker"
)

// An API and a worker in one program; each may as well be a program of its own.
func Example() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	st, err := store.New(client, store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()

	h, err := api.NewHandler(st, api.Config{Tokens: []api.Token{
		api.NewToken("me", os.Getenv("TOKEN"), intent.ScopeRead, intent.ScopeWrite),
	}})
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: h, ReadTimeout: 10 * time.Second, WriteTimeout: 15 * time.Second}
	go func() { log.Fatal(server.ListenAndServe()) }()

	w, err := worker.New(client, worker.Config{
		Name: "w1", Slots: []string{"gpu-1", "gpu-2"},
		NewPipeline: func(job worker.Job) worker.Pipeline { return &render{job: job, quit: make(chan struct{}, 1)} },
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("over:", w.Run(ctx))
}

// render is a pipeline that serves until it is stopped or its leases end.
type render struct {
	job  worker.Job
	ctx  context.Context
	quit chan struct{}
}

func (s *render) Start(ctx context.Context, fence int64) error {
	s.ctx = ctx // the fences, job.ResourceFence and job.SlotFence, go along with every request to the GPU
	return nil
}

func (s *render) Wait() error {
	select {
	case <-s.quit:
	case <-s.ctx.Done():
	}
	return nil
}

func (s *render) Stop() {
	select {
	case s.quit <- struct{}{}:
	default:
	}
}

// Once, by hand, for a Redis that is new: the settings of the leases are those of the store.
func Example_bootstrap() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	if err := admin.Bootstrap(context.Background(), client, store.Options{}); err != nil {
		log.Fatal(err)
	}
}
