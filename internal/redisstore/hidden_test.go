package redisstore_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// hears is a hook that keeps the words of all errors, as a tracer does.
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

// A Redis that knows neither AUTH nor HELLO repeats the beginning of what follows them. Nobody is shown a password in it: neither the
// caller nor a hook of the caller's, whether the client has the password or is given it.
func TestNoPasswordIsShownThatRedisRepeats(t *testing.T) {
	server := redistest.Start(t, redistest.Args("--rename-command", "AUTH", "", "--rename-command", "HELLO", ""))
	password := strings.Repeat("0123456789abcdef", 8)
	for what, o := range map[string]redis.Options{
		"of the client": {Username: "app", Password: password},
		"of a provider": {CredentialsProvider: func() (user, of string) { return "app", password }},
	} {
		o.Addr = server.Addr()
		var hook []string
		s := newStore(t, client(t, o), redisstore.Options{Hooks: []redis.Hook{hears{&hook}}})
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
		repeated := func(text string) bool { return strings.Contains(text, "0123") }
		if len(told) != 3 || slices.ContainsFunc(told, repeated) {
			t.Errorf("%s: the caller is told %q", what, told)
		}
		if len(hook) == 0 || slices.ContainsFunc(hook, repeated) {
			t.Errorf("%s: a hook hears %q", what, hook)
		}
	}
}
