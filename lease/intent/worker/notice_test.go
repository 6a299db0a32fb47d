package worker

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// A message on the channel is only a hint, because any client of Redis can publish it. Only the record ends a session.
func TestForgedStopIsNotObeyed(t *testing.T) {
	r := newRig(t)
	r.run(r.config("w1", "1", "2"))
	forged, real := r.start("a", "hd"), r.start("b", "hd")
	r.wait(forged, intent.StateRunning, "")
	r.wait(real, intent.StateRunning, "")
	for range 100 {
		r.must(r.client.Publish(t.Context(), "intent:notify", "stop "+forged).Err())
	}
	// The channel keeps the order, so once this session has ended, the worker has received the forged messages.
	r.stop(real)
	r.wait(real, intent.StateEnded, intent.ReasonStopped)
	select {
	case <-r.work(forged).quit:
		t.Error("a notice without a record stopped a session")
	default:
	}
	r.wait(forged, intent.StateRunning, "")
	r.stop(forged)
	r.wait(forged, intent.StateEnded, intent.ReasonStopped)
}

// Any client can publish that a worker has left. However often it does, each worker beats and sweeps at most a hundred times per TTL.
func TestFloodOfLeavesIsPaced(t *testing.T) {
	r := newRig(t)
	r.run(r.config("w1", "1"))
	scripts := func() (n int) {
		_, rest, _ := strings.Cut(r.client.Info(t.Context(), "commandstats").Val(), "cmdstat_evalsha:calls=")
		count, _, _ := strings.Cut(rest, ",")
		n, err := strconv.Atoi(count)
		r.must(err)
		return n
	}
	a := r.start("a", "hd")
	r.wait(a, intent.StateRunning, "")
	before, began := scripts(), time.Now()
	for time.Since(began) < time.Second {
		_, err := r.client.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
			for range 20 {
				pipe.Publish(t.Context(), "intent:notify", "left nobody")
			}
			return nil
		})
		r.must(err)
	}
	// A beat and its sweep are a few scripts.
	beats := int(time.Since(began)/kickPause(options.Leases.TTL)) + 1
	if n := scripts() - before; n > 4*beats {
		t.Errorf("%d scripts for %d beats", n, beats)
	}
	r.stop(a)
	r.wait(a, intent.StateEnded, intent.ReasonStopped)
}

// Any client that knows a running session can publish a stop. However often it does, the worker keeps one notice at a time.
func TestFloodOfStopsIsNotKept(t *testing.T) {
	r := newRig(t)
	w := r.run(r.config("w1", "1"))
	a := r.start("a", "hd")
	r.wait(a, intent.StateRunning, "")
	// Hold up the loop during the flood.
	held, goOn := make(chan struct{}), make(chan struct{})
	w.loop.inbox.put(message{f: func() { close(held); <-goOn }})
	<-held
	const flood, others = 5000, 8 // others: messages of other senders, one each
	for range flood / 100 {
		_, err := r.client.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
			for range 100 {
				pipe.Publish(t.Context(), "intent:notify", "stop "+a)
			}
			return nil
		})
		r.must(err)
	}
	r.eventually("what is said is heard", func() bool {
		w.loop.inbox.mu.Lock()
		defer w.loop.inbox.mu.Unlock()
		return len(w.loop.inbox.items) > 0
	})
	for range 100 { // the notices that arrive meanwhile
		r.must(r.client.Ping(t.Context()).Err())
	}
	kept := 0
	w.loop.inbox.mu.Lock()
	for _, m := range w.loop.inbox.items {
		if m.f != nil { // messages without a function are renewals, which no publisher can cause
			kept++
		}
	}
	w.loop.inbox.mu.Unlock()
	if close(goOn); kept > others {
		t.Errorf("%d messages are kept of %d", kept, flood)
	}
	r.wait(a, intent.StateRunning, "")
	r.stop(a)
	r.wait(a, intent.StateEnded, intent.ReasonStopped)
}
