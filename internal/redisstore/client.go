package redisstore

import (
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/leasestorm/leasestorm/internal/redisclient"
)

// derive returns a client to the same server that sends every command at most once.
func derive(client redis.UniversalClient, opt *Options) (redis.UniversalClient, error) {
	switch c := client.(type) {
	case *redis.Client:
		if c == nil {
			break
		}
		o := single(c.Options(), opt)
		if o.Addr == failoverAddr { // go-redis' dialer ignores deadlines while it asks the sentinels
			return newMasterClient(o, o.Dialer, opt), nil
		}
		redisclient.WatchFunctions(opt.Calls, &o.Dialer, &o.OnConnect, &o.CredentialsProvider, &o.CredentialsProviderContext)
		derived := redis.NewClient(o)
		derived.AddHook(unbroken{})
		return derived, nil
	case *masterClient:
		return newMasterClient(single(c.Options(), opt), c.master.dial, opt), nil
	case *redis.ClusterClient:
		if c != nil {
			o := clustered(c.Options(), opt)
			redisclient.WatchFunctions(opt.Calls, &o.Dialer, &o.OnConnect, &o.CredentialsProvider, &o.CredentialsProviderContext)
			derived := redis.NewClusterClient(o)
			derived.OnNewNode(func(node *redis.Client) {
				node.AddHook(unbroken{})
				node.AddHook(redisclient.Masking{})
			})
			return derived, nil
		}
	case *redis.Ring:
		return nil, fmt.Errorf("%w: a *redis.Ring spreads keys over servers that know nothing of each other, so it "+
			"cannot say which of them lost data; give New a *redis.Client or a *redis.ClusterClient",
			ErrUnsupportedClient)
	}
	return nil, fmt.Errorf("%w: %T; give New a *redis.Client (plain or failover) or a *redis.ClusterClient",
		ErrUnsupportedClient, client)
}

func single(from *redis.Options, opt *Options) *redis.Options {
	o := *from
	o.MaxRetries = -1   // a retry would repeat the attempt with its old timestamp (G1)
	o.DialerRetries = 1 // the core decides when to retry
	o.ContextTimeoutEnabled = true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = opt.OpTimeout, opt.OpTimeout, opt.OpTimeout
	o.PoolTimeout = opt.OpTimeout
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = opt.PoolSize, 0, 0, 0
	o.MaxConcurrentDials = opt.PoolSize
	o.Protocol = 2 // no push messages: every reply belongs to a request
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.PushNotificationProcessor = nil
	o.ClientSideCache, o.ClientSideCacheConfig = nil, nil
	o.AutoPipelineOptions = nil
	o.Limiter = nil
	return &o
}

func clustered(from *redis.ClusterOptions, opt *Options) *redis.ClusterOptions {
	o := *from
	o.MaxRetries = -1
	// The loop that follows redirects also resends interrupted commands. A redirect counts as a refusal and reloads the slot map.
	o.MaxRedirects = -1
	o.DialerRetries = 1
	o.ContextTimeoutEnabled = true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = opt.OpTimeout, opt.OpTimeout, opt.OpTimeout
	o.PoolTimeout = opt.OpTimeout
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = opt.PoolSize, 0, 0, 0
	o.MaxConcurrentDials = opt.PoolSize
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false // only the master has the latest state
	o.DisableRoutingPolicies = true
	o.Protocol = 2
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.PushNotificationProcessor = nil
	o.AutoPipelineOptions = nil
	return &o
}
