// Package redisflags adds flags and environment variables for the Redis of a program: its URL, its password, and its sentinels or cluster
// servers.
package redisflags

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/leasestorm/leasestorm/internal/redisclient"
	"github.com/leasestorm/leasestorm/internal/redisurl"
)

// URLVariable is the environment variable of the URL.
const URLVariable = "LEASESTORM_REDIS_URL"

const clusterVariable = "LEASESTORM_CLUSTER"

// Settings are the address of Redis and its password. Call Register, parse the flags, then call Complete.
type Settings struct {
	URL, PasswordFile                    string
	envURL, envPassword, envPasswordFile string
	sentinelSettings

	Cluster, envCluster string
	nodes               []string // some servers of the cluster; empty: no cluster
}

// Register adds the flags. The URL in the environment is not the default of its flag, because --help prints defaults and the URL may
// contain a password.
func (r *Settings) Register(fs *pflag.FlagSet, getenv func(string) string) {
	r.envURL, r.envPassword = getenv(URLVariable), getenv(redisurl.PasswordVariable)
	r.envPasswordFile = getenv(redisurl.PasswordFileVariable)
	fs.StringVar(&r.URL, "redis", "", "Redis, as redis://[user@]host:port[/db]; a password in a flag shows in the process list ("+
		URLVariable+")")
	fs.StringVar(&r.PasswordFile, "redis-password-file", r.envPasswordFile, "file whose first line is the password "+
		"of Redis, in the place of the URL's ("+redisurl.PasswordFileVariable+"; "+redisurl.PasswordVariable+" is the password itself)")
	r.sentinelFlags(fs, getenv)
}

// RegisterCluster adds the flag of programs that use Universal.
func (r *Settings) RegisterCluster(fs *pflag.FlagSet, getenv func(string) string) {
	r.envCluster = getenv(clusterVariable) // not the flag's default, as in Register
	fs.StringVar(&r.Cluster, "cluster", "", "servers of a Redis Cluster, as host:port,host:port, not necessarily all; the URL of Redis "+
		"then gives only user and password ("+clusterVariable+")")
}

// WithholdPassword forgets the password of the environment if flags name another Redis than the environment does. Call it before Complete
// if the user has not confirmed the flags yet, as in shell completion.
func (r *Settings) WithholdPassword() {
	own := func(flag, env string) bool { return flag == "" || flag == env }
	if own(r.URL, r.envURL) && own(r.Sentinels, r.envSentinels) && own(r.Cluster, r.envCluster) {
		return
	}
	r.envURL, r.envPassword = "", ""
	if r.PasswordFile == r.envPasswordFile {
		r.PasswordFile = ""
	}
}

// Complete sets what no flag has set from the environment, and checks the settings. Its errors name the variable and the flag.
func (r *Settings) Complete() error {
	if err := r.sentinelSettings.complete(); err != nil {
		return err
	}
	var err error
	if r.nodes, err = addresses(cmp.Or(r.Cluster, r.envCluster), clusterVariable, "--cluster"); err != nil {
		return err
	}
	if len(r.nodes) > 0 && len(r.addrs) > 0 {
		return fmt.Errorf("%s and %s (--cluster, --sentinels): a cluster has no sentinels; leave one of them out", clusterVariable,
			sentinelsVariable)
	}
	r.URL = cmp.Or(r.URL, r.envURL)
	servers := slices.Concat(r.addrs, r.nodes)
	switch {
	case r.URL == "" && len(servers) > 0:
		r.URL = "redis://" + servers[0] // without user and password; the client uses the servers, not this host
	case r.URL == "":
		return errors.New("no Redis given; set LEASESTORM_REDIS_URL or --redis, as redis://127.0.0.1:6379, or --sentinels")
	}
	return nil
}

// Client returns a client for Redis, which connects on first use. If the URL has skip_verify, Client writes a warning to warn in the name
// of program.
func (r *Settings) Client(program string, warn io.Writer) (*redis.Client, error) {
	opt, err := r.options(program, warn)
	switch {
	case err != nil:
		return nil, err
	case len(r.addrs) > 0:
		return r.failover(opt)
	}
	opt.Dialer = redisclient.Dialer(opt)
	c := redis.NewClient(opt)
	c.AddHook(redisclient.Masking{})
	return c, nil
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

func (r *Settings) options(program string, warn io.Writer) (*redis.Options, error) {
	opt, err := redisurl.Parse(r.URL)
	if err != nil {
		return nil, errors.New("LEASESTORM_REDIS_URL (--redis) is " + err.Error())
	}
	password, err := redisurl.Password(r.PasswordFile, r.envPassword)
	if err != nil {
		return nil, err
	}
	if opt.TLSConfig != nil && opt.TLSConfig.InsecureSkipVerify {
		fmt.Fprintln(warn, program+": skip_verify lets anybody on the network impersonate Redis and read its password")
	}
	opt.Password = cmp.Or(password, opt.Password)
	opt.DisableIdentity = true
	opt.ReadBufferSize, opt.WriteBufferSize = 4096, 4096 // many nodes share a machine
	return opt, nil
}
