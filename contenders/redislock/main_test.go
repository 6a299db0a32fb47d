package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// serve answers commands as an old Redis does, while the network works.
func serve(conn net.Conn, silent *atomic.Bool) {
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		words, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		var command string
		for i := range 2 * words { // a line with the length before each
			if line, _ = in.ReadString('\n'); i == 1 {
				command = strings.ToLower(strings.TrimSpace(line))
			}
		}
		switch {
		case silent.Load():
		case command == "hello":
			fmt.Fprint(conn, "-ERR unknown command\r\n")
		default:
			fmt.Fprint(conn, "+OK\r\n")
		}
	}
}

// If the network swallows also what opens a connection, Refresh returns only after all of go-redis' time-outs and repetitions. The faults of
// simulate let a client connect, so that it returns sooner there.
func TestRefreshInADeadNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		client := redis.NewClient(&redis.Options{Protocol: 2, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if silent.Load() {
				ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // as net.Dialer with go-redis' default DialTimeout
				defer cancel()
				<-ctx.Done()
				return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
			}
			here, there := net.Pipe()
			go serve(there, &silent)
			return here, nil
		}})
		defer client.Close()
		lock, err := redislock.Obtain(t.Context(), client, "lease", 3*time.Second, nil)
		if err != nil {
			t.Fatal(err)
		}
		silent.Store(true)
		began := time.Now()
		err = lock.Refresh(t.Context(), 3*time.Second, nil)
		took := time.Since(began)
		if err == nil || took < time.Minute {
			t.Errorf("Refresh returned %v after %v, want an error after more than a minute", err, took)
		}
		t.Logf("Refresh returned %v after %v", err, took)
	})
}
