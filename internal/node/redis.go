package node

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/internal/respguard"
)

const redisVariable = "LEASESTORM_REDIS_URL"

// redisSettings say where Redis is, and its password.
type redisSettings struct {
	redisURL, passwordFile string
	envURL, envPassword    string
	sentinelSettings
}

// redisFlags adds the flags that say where Redis is. What the environment says of it is no flag's default, which --help prints.
func (r *redisSettings) redisFlags(fs *pflag.FlagSet, getenv func(string) string) {
	r.envURL, r.envPassword = getenv(redisVariable), getenv(redisurl.PasswordVariable)
	fs.StringVar(&r.redisURL, "redis", "", "Redis, as redis://[user@]host:port[/db]; a password in a flag shows in the process list ("+
		redisVariable+")")
	fs.StringVar(&r.passwordFile, "redis-password-file", getenv(redisurl.PasswordFileVariable), "file whose first line is the password "+
		"of Redis, in the place of the URL's ("+redisurl.PasswordFileVariable+"; "+redisurl.PasswordVariable+" is the password itself)")
	r.sentinelFlags(fs, getenv)
}

// complete fills in what no flag says.
func (r *redisSettings) complete() error {
	if r.redisURL = cmp.Or(r.redisURL, r.envURL); r.redisURL == "" {
		return errors.New("no Redis given; set LEASESTORM_REDIS_URL or --redis, as redis://127.0.0.1:6379")
	}
	return r.sentinelSettings.complete()
}

// client returns a client for the given Redis, and warns of one that anybody can take the place of. It connects when it is used.
func (r *redisSettings) client() (*redis.Client, error) {
	opt, err := redisurl.Parse(r.redisURL)
	if err != nil {
		return nil, errors.New("LEASESTORM_REDIS_URL (--redis) is " + err.Error())
	}
	password, err := redisurl.Password(r.passwordFile, r.envPassword)
	if err != nil {
		return nil, err
	}
	if opt.TLSConfig != nil && opt.TLSConfig.InsecureSkipVerify {
		fmt.Fprintln(terminal(os.Stderr), "node: skip_verify: whoever is on the way to Redis can pretend to be it, and hears its password")
	}
	opt.Password = cmp.Or(password, opt.Password)
	opt.DisableIdentity = true
	opt.ReadBufferSize, opt.WriteBufferSize = 4096, 4096 // many nodes share a machine
	if len(r.addrs) > 0 {
		return r.failover(opt)
	}
	return respguard.NewClient(opt), nil
}
