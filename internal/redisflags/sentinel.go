package redisflags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/leasestorm/leasestorm/internal/redisclient"
)

const (
	sentinelsVariable  = "LEASESTORM_SENTINELS"
	masterNameVariable = "LEASESTORM_MASTER_NAME"
	waysVariable       = "LEASESTORM_WAYS"
)

type sentinelSettings struct {
	Sentinels, masterName, envSentinels, envWays string

	addrs []string          // of sentinels; empty: use the Redis of the URL
	ways  map[string]string // address of a server or sentinel → address by which this node reaches it
}

func (s *sentinelSettings) sentinelFlags(fs *pflag.FlagSet, getenv func(string) string) {
	s.envSentinels = getenv(sentinelsVariable) // not the flag's default, which --help prints: it may be a URL with a password by mistake
	fs.StringVar(&s.Sentinels, "sentinels", "", "sentinels of the master, as host:port,host:port; the URL of Redis "+
		"then gives only user, password and database ("+sentinelsVariable+")")
	fs.StringVar(&s.masterName, "master-name", getenv(masterNameVariable), "the sentinels' name of the master ("+masterNameVariable+")")
	s.envWays = getenv(waysVariable)
}

func (s *sentinelSettings) complete() error {
	s.Sentinels = cmp.Or(s.Sentinels, s.envSentinels)
	var err error
	if s.addrs, err = addresses(s.Sentinels, sentinelsVariable, "--sentinels"); err != nil {
		return err
	}
	if len(s.addrs) > 0 && s.masterName == "" {
		return fmt.Errorf("no name of the master given; set %s or --master-name to what the sentinels call it", masterNameVariable)
	}
	if s.ways = map[string]string{}; s.envWays == "" {
		return nil
	}
	for way := range strings.SplitSeq(s.envWays, ",") {
		addr, own, _ := strings.Cut(way, "=")
		if _, err := netip.ParseAddrPort(addr); err != nil {
			return fmt.Errorf("%s has %q; it must be IP:port=IP:port", waysVariable, shown(way))
		}
		if _, err := netip.ParseAddrPort(own); err != nil {
			return fmt.Errorf("%s has %q; it must be IP:port=IP:port", waysVariable, shown(way))
		}
		s.ways[addr] = own
	}
	return nil
}

func addresses(list, variable, flag string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	all := strings.Split(list, ",")
	for _, addr := range all {
		if _, port, err := net.SplitHostPort(addr); err != nil || port == "" || strings.Contains(addr, "@") {
			return nil, fmt.Errorf("%s (%s) has %q; it must be host:port,host:port; give user and password in the URL of Redis", variable,
				flag, shown(addr))
		}
	}
	return all, nil
}

// shown returns addr without the part before @, which may be a password by mistake.
func shown(addr string) string {
	if at := strings.LastIndexByte(addr, '@'); at >= 0 {
		return "…" + addr[at:]
	}
	return addr
}

// sentinelPatience is the timeout of servers and sentinels if the URL has none. It is short, because another sentinel may know of a
// failover meanwhile.
const sentinelPatience = time.Second

// failover returns a client that gets the master's address from the sentinels.
func (s *sentinelSettings) failover(opt *redis.Options) (*redis.Client, error) {
	o := *opt
	o.DialTimeout, o.ReadTimeout = cmp.Or(o.DialTimeout, sentinelPatience), cmp.Or(o.ReadTimeout, sentinelPatience)
	dial, err := s.dialer(&o)
	if err != nil {
		return nil, err
	}
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: s.masterName, SentinelAddrs: s.addrs,
		Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig, DisableIdentity: o.DisableIdentity,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		ReadBufferSize: o.ReadBufferSize, WriteBufferSize: o.WriteBufferSize,
		Dialer: dial,
	})
	c.AddHook(redisclient.Masking{})
	return c, nil
}

// dialer returns a dialer that replaces addresses of servers and sentinels by those in s.ways.
func (s *sentinelSettings) dialer(o *redis.Options) (func(ctx context.Context, network, addr string) (net.Conn, error), error) {
	if len(s.ways) > 0 && o.TLSConfig != nil {
		return nil, errors.New(waysVariable + ": cannot be used with TLS; unset this variable")
	}
	dial := redisclient.Dialer(o)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, cmp.Or(s.ways[addr], addr))
		if socket, ok := conn.(*net.TCPConn); ok && s.ways[addr] != "" {
			return &elsewhere{socket, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))}, err
		}
		return conn, err
	}, nil
}

// elsewhere is a connection to an address in ways. Its RemoteAddr is the server's own address, so that a change of the server shows.
type elsewhere struct {
	*net.TCPConn

	at net.Addr
}

// RemoteAddr implements net.Conn.
func (e *elsewhere) RemoteAddr() net.Addr { return e.at }
