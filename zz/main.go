package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	h, _ := os.Hostname()
	fmt.Println("host", h, os.Getpid())
	c := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS")})
	for i := 0; ctx.Err() == nil; i++ {
		err := c.Set(ctx, "k", fmt.Sprint(i), time.Second).Err()
		if err != nil || i%100 == 0 {
			fmt.Println(i, err)
		}
		select { case <-ctx.Done(): case <-time.After(100*time.Millisecond): }
	}
	fmt.Println("bye", c.Close())
}
