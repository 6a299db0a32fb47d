package redisstore_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// hears is a hook that records the texts of all errors, as a tracer does.
type hears struct{ words *[]string }

func (h hears) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hears) heard(err error) error {
	if err != nil {
		*h.words = append(*h.words, err.Error())
	}
	return err
}

func (h hears) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return h.heard(next(ctx, cmd)) }
}

func (h hears) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			_ = h.heard(cmd.Err())
		}
		return h.heard(err)
	}
}

// A Redis that knows neither AUTH nor HELLO repeats their arguments. No caller and no hook sees a password there, whether it comes from the
// client, a provider, a Sentinel client or a cluster client.
func TestNoPasswordIsShownThatRedisRepeats(t *testing.T) {
	renamed := redistest.Args("--rename-command", "AUTH", "", "--rename-command", "HELLO", "")
	at := []string{redistest.Start(t, renamed, redistest.Cluster()).Addr()}
	const password = "0123456789abcdef"
	for what, c := range map[string]redis.UniversalClient{
		"of the client": redis.NewClient(&redis.Options{Addr: at[0], Username: "app", Password: password}),
		"of a provider": redis.NewClient(&redis.Options{Addr: at[0], CredentialsProvider: func() (string, string) { return "app", password }}),
		"of a Sentinel": redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: at, SentinelPassword: password}),
		"of a cluster":  redis.NewClusterClient(&redis.ClusterOptions{Addrs: at, Username: "app", Password: password}),
	} {
		t.Cleanup(func() { _ = c.Close() })
		var hook []string
		s := newStore(t, c, redisstore.Options{Hooks: []redis.Hook{hears{&hook}}, OpTimeout: 10 * time.Second,
			LeasePrefix: "{p}l:", NodePrefix: "{p}n:", EpochKey: "{p}e"})
		var told []string
		for _, ask := range []func() error{
			func() error { _, err := s.Check(t.Context()); return err },
			func() error { return s.Permitted(t.Context(), redisstore.Use{}) },
			func() error { return s.Bootstrap(t.Context()) },
		} {
			if err := ask(); err != nil {
				told = append(told, err.Error())
			}
		}
		repeated := func(text string) bool {
			return strings.Contains(text, "0123") || !strings.Contains(text, "AUTH") && !strings.Contains(text, "auth")
		}
		if len(told) != 3 || slices.ContainsFunc(told, repeated) {
			t.Errorf("%s: the caller is told %q", what, told)
		}
		if len(hook) == 0 || slices.ContainsFunc(hook, func(text string) bool { return strings.Contains(text, "0123") }) {
			t.Errorf("%s: a hook hears %q", what, hook)
		}
	}
}
