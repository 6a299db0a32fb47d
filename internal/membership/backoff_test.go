package membership

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	core "github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// The pauses between requests grow while Redis fails at once.
func TestFailuresAreRepeatedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := &refusals{}
		client := redis.NewClient(&redis.Options{})
		defer client.Close()
		st, err := store.New(client, store.Options{Leases: lease.Config{Hooks: []redis.Hook{asked}}})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		bus, err := intentbus.Open(st, "w")
		if err != nil {
			t.Fatal(err)
		}
		defer bus.Close()
		const life, renew = 30 * time.Second, 10 * time.Second
		began := time.Now()
		goesOn := func() bool { return time.Since(began) < renew }
		x := &Member{
			Registry: Registry{
				Life: life, Bus: bus, Deliver: func([]intentbus.Entry) {},
				Pause: func(_ context.Context, d time.Duration) { <-time.After(d) }, Quit: func() bool { return !goesOn() },
			},
			Renew: renew, Kick: func() {}, AwaitCapacity: goesOn, Query: func(f func(*core.Machine)) bool {
				f(core.New(core.Config{}))
				return goesOn()
			},
		}
		x.Consume(t.Context())
		if asked.n != 7 { // at 0, 0.3, 0.9, 2.1, 4.5, 7 and 9.5 s
			t.Errorf("in a renewal interval the bus was read %d times, want 7", asked.n)
		}
		asked.n, began = 0, time.Now()
		for time.Since(began) < renew {
			if e, _ := x.Write(t.Context(), &core.Effect{Session: "s", State: core.Ended}, "a"); e.Wrote != core.WroteFailed {
				t.Fatalf("%+v", e)
			}
			<-time.After(Retry(life)) // the machine's own pause
		}
		if asked.n != 7 {
			t.Errorf("in a renewal interval a session was written %d times, want 7", asked.n)
		}
	})
}

// refusals counts commands and refuses them.
type refusals struct{ n int }

var errRefused = errors.New("READONLY You can't write against a read only replica")

func (r *refusals) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *refusals) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { r.n++; return errRefused }
}

func (r *refusals) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		r.n += len(cmds)
		for _, c := range cmds {
			c.SetErr(errRefused)
		}
		return errRefused
	}
}
