package redisflags

import (
	"errors"
	"io"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/leasestorm/leasestorm/internal/redisclient"
)

const clusterVariable = "LEASESTORM_CLUSTER"

type clusterSettings struct {
	Cluster, envCluster string

	nodes []string // some of its servers; empty: no cluster
}

// RegisterCluster adds the flag of programs that use Universal.
func (r *Settings) RegisterCluster(fs *pflag.FlagSet, getenv func(string) string) {
	r.envCluster = getenv(clusterVariable) // not the flag's default, as in sentinelFlags
	fs.StringVar(&r.Cluster, "cluster", "", "servers of a Redis Cluster, as host:port,host:port, not necessarily all; the URL of Redis "+
		"then gives only user and password ("+clusterVariable+")")
}

// Universal is like Client, for a program that can also use a cluster.
func (r *Settings) Universal(program string, warn io.Writer) (redis.UniversalClient, error) {
	if len(r.nodes) == 0 {
		c, err := r.Client(program, warn)
		if err != nil {
			return nil, err // not c: an interface with a nil pointer is not nil
		}
		return c, nil
	}
	o, err := r.options(program, warn)
	if err != nil {
		return nil, err
	}
	if o.DB != 0 {
		return nil, errors.New(URLVariable + " (--redis) names a database: a cluster has the first only; leave it out")
	}
	dial, err := r.dialer(o)
	if err != nil {
		return nil, err
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: r.nodes, Dialer: dial, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig, DisableIdentity: o.DisableIdentity,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		ReadBufferSize: o.ReadBufferSize, WriteBufferSize: o.WriteBufferSize,
	})
	c.AddHook(redisclient.Masking{})
	c.OnNewNode(func(server *redis.Client) { server.AddHook(redisclient.Masking{}) })
	return c, nil
}
