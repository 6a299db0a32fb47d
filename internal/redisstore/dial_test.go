package redisstore

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// led is a connection to the server of this name.
type led struct {
	net.Conn

	to     string
	closed chan struct{}
}

func (l *led) RemoteAddr() net.Addr { return &net.UnixAddr{Name: l.to} }

func (l *led) Close() error {
	close(l.closed)
	return nil
}

// A dial that began before another one, was led to another server and ends later, is outdated.
func TestLateDialIsRefused(t *testing.T) { // G1
	answers := make(chan chan *led)
	dial := func(context.Context, string, string) (net.Conn, error) {
		answer := make(chan *led)
		answers <- answer
		return <-answer, nil
	}
	opt := Options{Quarantine: time.Hour}.withDefaults()
	client := newMasterClient(single(&redis.Options{Addr: failoverAddr}, &opt), dial, &opt)
	defer func() { _ = client.Close() }()
	m := client.master
	m.at = "old" // no lock: nothing else runs yet
	begin := func() (chan *led, chan error) {
		done := make(chan error, 1)
		go func() {
			_, err := m.connect(t.Context(), "tcp", failoverAddr)
			done <- err
		}()
		return <-answers, done
	}
	to := func(name string) *led { return &led{to: name, closed: make(chan struct{})} }

	first, firstDone := begin()
	late, lateDone := begin()
	last, lastDone := begin()
	kept, refused, current := to("old"), to("old"), to("new")
	first <- kept
	if err := <-firstDone; err != nil {
		t.Fatal(err)
	}
	last <- current
	if err := <-lastDone; err != nil {
		t.Fatal(err)
	}
	<-kept.closed
	late <- refused
	if err := <-lateDone; !errors.Is(err, errSwitched) {
		t.Fatalf("a late dial to the old master: %v", err)
	}
	<-refused.closed
	if m.where() != "new" || len(m.conns) != 1 {
		t.Fatalf("%d connections to %s", len(m.conns), m.where())
	}
}
