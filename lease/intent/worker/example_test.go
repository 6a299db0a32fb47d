package worker_test

import (
	"context"
	"fmt"
	"log"
	"os"

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
	go func() { log.Fatal(api.NewServer("127.0.0.1:8080", h).ListenAndServe()) }()

	w, err := worker.New(client, worker.Config{
		Name: "w1", Slots: []string{"tuner-1", "tuner-2"},
		NewPipeline: func(job worker.Job) worker.Pipeline { return &stream{job: job, quit: make(chan struct{}, 1)} },
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("over:", w.Run(ctx))
}

// stream is a pipeline that serves until it is stopped or its leases end.
type stream struct {
	job  worker.Job
	ctx  context.Context
	quit chan struct{}
}

func (s *stream) Start(ctx context.Context, fence int64) error {
	s.ctx = ctx // the fences, job.ServiceFence and job.TunerFence, go along with every request to the tuner
	return nil
}

func (s *stream) Wait() error {
	select {
	case <-s.quit:
	case <-s.ctx.Done():
	}
	return nil
}

func (s *stream) Stop() {
	select {
	case s.quit <- struct{}{}:
	default:
	}
}

// Once, by hand, for a Redis that is new: the settings of the leases are those of the store.
func Example_bootstrap() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	st, err := store.New(client, store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	if err := admin.Bootstrap(context.Background(), client, st.Options()); err != nil {
		log.Fatal(err)
	}
}
