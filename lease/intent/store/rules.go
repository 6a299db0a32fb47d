package store

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

const (
	apiCommands = "xlen zcard zrevrangebylex get set hget hmget hset sadd xadd zadd publish"

	workerCommands = "scan time exists get set del persist hget hmget hset hdel sadd srem smembers zadd zcard zrange " +
		"zrangebyscore zrem zscore xadd xack xclaim xdel xgroup xinfo xpending xrange xreadgroup publish subscribe"
)

// apiRules are the rights of an API. PutLeased acquires leases, but needs no
// channel of leases.
func (o *Options) apiRules() redisstore.Rules {
	leases := o.leaseOptions().Rules(redisstore.Use{})
	keys := redisstore.Rules{Keys: []string{redisstore.Glob(o.KeyPrefix) + "*"}}.And(leases).Keys
	return redisstore.Rules{Keys: keys, Channels: []string{redisstore.Glob(o.KeyPrefix + "notify")},
		Commands: strings.Fields("info time eval evalsha " + apiCommands)}
}

func (o *Options) workerRules(client redis.UniversalClient) redisstore.Rules {
	own := redisstore.Rules{Keys: []string{redisstore.Glob(o.KeyPrefix) + "*"}, Channels: []string{redisstore.Glob(o.KeyPrefix + "notify")},
		Commands: strings.Fields(workerCommands)}
	leases := o.leaseOptions()
	leases.Channel = o.Leases.Channel
	return own.And(leases.In(client).Rules(redisstore.Use{}))
}

// Ping returns nil if Redis could accept a request now. Otherwise it returns
// ErrUnavailable. If an ACL denies the request, the error has the rules to add.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opt.OpTimeout)
	defer cancel()
	err := s.client.XLen(ctx, s.bus).Err()
	if denied := redisstore.Explain(s.client, s.opt.apiRules(), err); denied != nil {
		err = denied
	}
	if err != nil {
		return unavailable(s.named(ctx, err))
	}
	return nil
}
