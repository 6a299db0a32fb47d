package redisclient

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/callback"
)

// Watch returns hook with its calls recorded in calls. The time that the client takes within a call does not count.
func Watch(calls *callback.Calls, hook redis.Hook) redis.Hook {
	if calls == nil {
		return hook
	}
	return watched{hook, calls, fmt.Sprintf("the %T of Config.Hooks", hook)}
}

type watched struct {
	redis.Hook

	calls *callback.Calls
	name  string
}

// runs is the key of a context's *callback.Running.
type runs struct{}

func (w watched) begin(ctx context.Context) (context.Context, *callback.Running) {
	r := w.calls.Begin(w.name, 0)
	return context.WithValue(ctx, runs{}, r), r
}

// pause records that the hook calls the client. resume records that the hook goes on.
func pause(ctx context.Context) (resume func()) {
	r, _ := ctx.Value(runs{}).(*callback.Running)
	r.End()
	return r.Resume
}

// DialHook implements redis.Hook.
func (w watched) DialHook(next redis.DialHook) redis.DialHook {
	hooked := w.Hook.DialHook(func(ctx context.Context, network, addr string) (net.Conn, error) {
		defer pause(ctx)()
		return next(ctx, network, addr)
	})
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, r := w.begin(ctx)
		defer r.End()
		return hooked(ctx, network, addr)
	}
}

// ProcessHook implements redis.Hook.
func (w watched) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	hooked := w.Hook.ProcessHook(func(ctx context.Context, cmd redis.Cmder) error {
		defer pause(ctx)()
		return next(ctx, cmd)
	})
	return func(ctx context.Context, cmd redis.Cmder) error {
		ctx, r := w.begin(ctx)
		defer r.End()
		return hooked(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (w watched) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	hooked := w.Hook.ProcessPipelineHook(func(ctx context.Context, cmds []redis.Cmder) error {
		defer pause(ctx)()
		return next(ctx, cmds)
	})
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ctx, r := w.begin(ctx)
		defer r.End()
		return hooked(ctx, cmds)
	}
}

// WatchFunctions replaces the functions of a client's options by functions whose calls are recorded in calls.
func WatchFunctions(calls *callback.Calls, dialer *func(ctx context.Context, network, addr string) (net.Conn, error),
	onConnect *func(context.Context, *redis.Conn) error, provider *func() (user, password string),
	providerContext *func(context.Context) (user, password string, err error)) {
	if calls == nil {
		return
	}
	begin := func(name string) *callback.Running { return calls.Begin("the client's "+name, 0) }
	if dial := *dialer; dial != nil {
		*dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			defer begin("Dialer").End()
			return dial(ctx, network, addr)
		}
	}
	if connected := *onConnect; connected != nil {
		*onConnect = func(ctx context.Context, cn *redis.Conn) error {
			defer begin("OnConnect").End()
			return connected(ctx, cn)
		}
	}
	if provide := *provider; provide != nil {
		*provider = func() (string, string) {
			defer begin("CredentialsProvider").End()
			return provide()
		}
	}
	if provide := *providerContext; provide != nil {
		*providerContext = func(ctx context.Context) (string, string, error) {
			defer begin("CredentialsProviderContext").End()
			return provide(ctx)
		}
	}
}
