package lease

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// An instance that may not subscribe to the channel still works. Health and the log name the missing right, and say when Redis grants it
// again.
func TestLossOfTheChannelIsTold(t *testing.T) {
	server, client := bootstrapped(t)
	server.Do("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all")
	opt := *client.Options()
	opt.Username, opt.Password = "app", "pw"
	app := redis.NewClient(&opt)
	t.Cleanup(func() { _ = app.Close() })
	entries, logs := observer.New(zap.InfoLevel)
	cfg := quick("a")
	cfg.Logger = zap.New(entries)
	k := startKeeper(t, app, cfg)
	if h := k.Health(); strings.Contains(h.Reason, "notices") {
		t.Fatalf("at first: %v", h)
	}
	server.Do("ACL", "SETUSER", "app", "resetchannels")
	redistest.Eventually(t, "the loss is told", func() bool {
		h := k.Health()
		return h.OK() && h.Deaf && strings.Contains(h.Reason, "notices are not heard") && strings.Contains(h.Reason, "NOPERM") &&
			strings.Contains(h.Reason, " &lease:notify ")
	})
	if err := k.Do(t.Context(), "job", func(context.Context, int64) error { return nil }); err != nil {
		t.Errorf("without notices: %v", err)
	}
	server.Do("ACL", "SETUSER", "app", "&*")
	redistest.Eventually(t, "its end is told", func() bool { return k.Health().OK() && !k.Health().Deaf })
	if err := k.Stop(); err != nil {
		t.Error(err)
	}
	for _, event := range []string{"noticesRefused", "noticesHeard"} {
		if n := logs.FilterField(zap.String("event", event)).Len(); n != 1 {
			t.Errorf("%d entries %s, want 1", n, event)
		}
	}
}
