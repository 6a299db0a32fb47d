package redisstore_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/servetest"
)

// Ending a subscription does not wait for a silent server, neither for its reply to HELLO nor for its TLS handshake.
func TestSilentServerIsNotHeardAnyMore(t *testing.T) {
	for what, config := range map[string]*tls.Config{"HELLO": nil, "TLS": {ServerName: "redis"}} {
		t.Run(what, func(t *testing.T) {
			asked := make(chan struct{})
			addr := servetest.Serve(t, func(c net.Conn) {
				if _, err := c.Read(make([]byte, 1)); err == nil {
					close(asked)
				}
				_, _ = io.Copy(io.Discard, c)
			})
			client := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: config, DialTimeout: time.Hour})
			t.Cleanup(func() { _ = client.Close() })
			own, err := redisstore.OwnClient(client, redisstore.Options{OpTimeout: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = own.Close() })
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				redisstore.Listen(ctx, own, "channel", time.Hour, time.Second, func(string) {}, func(error) {})
			}()
			<-asked
			cancel()
			<-ended
		})
	}
}
