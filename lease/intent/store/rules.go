package store

import (
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
	keys := redisstore.Rules{Keys: []string{glob.Replace(o.KeyPrefix) + "*"}}.And(leases).Keys
	return redisstore.Rules{Keys: keys, Channels: []string{glob.Replace(o.KeyPrefix + "notify")},
		Commands: strings.Fields("info time eval evalsha " + apiCommands)}
}

func (o *Options) workerRules(client redis.UniversalClient) redisstore.Rules {
	own := redisstore.Rules{Keys: []string{glob.Replace(o.KeyPrefix) + "*"}, Channels: []string{glob.Replace(o.KeyPrefix + "notify")},
		Commands: strings.Fields(workerCommands)}
	leases := o.leaseOptions()
	leases.Channel = o.Leases.Channel
	return own.And(leases.In(client).Rules(redisstore.Use{}))
}

func (b *bus) Explain(err error) error {
	if denied := redisstore.Explain(b.client, b.opt.workerRules(b.client), err); denied != nil {
		return denied
	}
	return err
}

// glob escapes the pattern characters of SCAN's MATCH and of an ACL.
var glob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
