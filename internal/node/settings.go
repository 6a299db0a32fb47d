package node

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/leasestorm/leasestorm/internal/redisflags"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/election"
	"github.com/leasestorm/leasestorm/lease/poll"
)

const usage = `Share polling sessions with other nodes through Redis, and poll those that this node owns.

  node --redis redis://127.0.0.1:6379 --target http://127.0.0.1:8080
  node bootstrap --redis redis://127.0.0.1:6379
  node quarantine 30s --redis redis://127.0.0.1:6379
  node replicas 2 --redis redis://127.0.0.1:6379
  node health 127.0.0.1:9480

  node --system election --redis redis://127.0.0.1:6379 --target http://127.0.0.1:8080
  node --system intents --help
  node --version

The node finds sessions by SCAN session:* (JSON with "id", a UUID, and "isPaused") and acquires leases of its share
(poll:lease:<id>). For each of them, it sends POST <target>/poll/<id> with the headers X-Instance and X-Fence once per
interval. The target should refuse a fence lower than the highest it has seen, with 409. With --system election, the
nodes elect one leader (sovereign:leader), which sends POST <target>/poll/sovereign:leader in the same way. With
--system intents, node is another program, with its own settings.

Standard output: the node's messages, one JSON object a line (docs/node-protocol.md).
Standard error:  the log, JSON.
SIGTERM, SIGINT: stop cleanly: running polls end, leases are released, exit 0. A second one: exit 1 at once.
SIGUSR1:         at the next poll, after the check of the lease and before the request, print "paused" and stop (SIGSTOP).

node bootstrap   declares the first deployment on an empty Redis, once. Without it, the first nodes wait for one TTL, as
                 after a loss of data. It fails while a lease or heartbeat exists.
node quarantine  changes the quarantine of all nodes: how long Redis grants nothing after a loss of data. It must be at
                 least the longest TTL of any node. For a longer TTL, raise the quarantine, wait for that long, and restart
                 the nodes. For a shorter TTL, restart the nodes first. Free leases are granted again after the longer of
                 both quarantines; owners keep their leases.
node replicas    lowers the number of replicas that Redis should have, for all nodes. First stop the surplus replicas for
                 good, and restart every node with the lower --replicas. (A higher --replicas raises the number by itself.)

node health      asks the node whose --health has this address (default: LEASESTORM_HEALTH_ADDR) whether it is ready. Exit
                 code 0: ready; 1: not ready, or no answer. It is a health check for containers without a shell.

Exit codes: 0 stopped cleanly; 1 not everything could be released; 3 a setting or the Redis is wrong, nothing was done.

Every setting is an environment variable; a flag overrides it. Durations in variables are milliseconds, in flags "1.5s".
`

// The systems that nodes share. Intents are a separate program with its own settings.
const (
	systemPolling  = "polling"
	systemElection = "election"
	systemIntents  = "intents"
)

// healthVariable holds the address that serves /healthz, /metrics and /readyz. The command health reads it too.
const healthVariable = "LEASESTORM_HEALTH_ADDR"

type settings struct {
	redisflags.Settings

	targetURL  string
	name       string
	healthAddr string
	pauseNow   bool
	logLevel   zapcore.Level
	renewals   zapcore.Level // level of entries of successful renewals

	system string
	leases lease.Config
	polls  poll.Config

	leaderKey                       string
	election, heartbeat, startDelay time.Duration
}

// parse reads the environment and then the flags. Its errors name the variable or the flag.
func parse(args []string, getenv func(string) string, out io.Writer) (settings, error) {
	s := settings{}
	fs := newVariables("node", getenv)
	duration := fs.duration
	text := func(p *string, flag, variable, help string) { fs.text(p, flag, variable, "", help) }
	text(&s.system, "system", "LEASESTORM_SYSTEM", "polling (if empty) or election: what the nodes share; intents: see node --system "+
		"intents --help")
	s.Register(fs.FlagSet, getenv)
	s.RegisterCluster(fs.FlagSet, getenv)
	text(&s.targetURL, "target", "LEASESTORM_TARGET_URL", "the target to poll, as http://host:port")
	fs.Lookup("target").DefValue = "" // it may have a password, and --help prints it
	text(&s.healthAddr, "health", healthVariable, "where anybody can read /healthz, /metrics and /readyz (503 with the reason while "+
		"no lease can be acquired), as host:port; nowhere if empty")
	text(&s.name, "name", "LEASESTORM_NODE", "name of this node in its log")
	duration(&s.leases.TTL, "ttl", "LEASESTORM_TTL_MS", lease.DefaultTTL, "how long a lease lives without a renewal")
	duration(&s.leases.RenewInterval, "renew", "LEASESTORM_RENEW_MS", 0, "time between renewals; 0: TTL/3")
	duration(&s.heartbeat, "heartbeat", "LEASESTORM_HEARTBEAT_MS", 0,
		"time between heartbeats; if given, it must be the time between renewals")
	duration(&s.leases.DiscoveryInterval, "discovery", "LEASESTORM_DISCOVERY_MS", 0, "time between discoveries; 0: TTL/3")
	duration(&s.leases.OpTimeout, "op-timeout", "LEASESTORM_OP_TIMEOUT_MS", 0, "timeout of a request to Redis; 0: TTL/10")
	var delay, replicas string
	text(&replicas, "replicas", "LEASESTORM_REPLICAS", "how many replicas Redis is meant to have (docs/replicas.md); 0 if empty")
	duration(&s.polls.Interval, "poll", "LEASESTORM_POLL_MS", poll.DefaultInterval, "time between polls of a session")
	duration(&s.polls.Timeout, "poll-timeout", "LEASESTORM_POLL_TIMEOUT_MS", 0, "timeout of a poll; 0: TTL/3")
	duration(&s.polls.DrainTimeout, "drain", "LEASESTORM_DRAIN_MS", 0, "how long a clean stop lets polls run; 0: the poll timeout")
	duration(&s.polls.Stuck, "stuck", "LEASESTORM_STUCK_MS", 0,
		"how long a poll may take to return after its context ended, before its lease is given up; 0: TTL/3")
	duration(&s.election, "election", "LEASESTORM_ELECTION_MS", 0, "election: time between two reads of a follower; 0: TTL/2")
	text(&delay, "start-delay", "LEASESTORM_START_DELAY_MS", "election: longest random time before the first attempt, in "+
		"ms; 0: none, empty: TTL/3")
	s.keyFlags(text)
	var level, renewals, long, pause string
	text(&level, "log", "LEASESTORM_LOG", "debug, info, warn or error; info if empty")
	text(&renewals, "renew-log", "LEASESTORM_RENEW_LOG", "log level of successful renewals; info if empty")
	text(&long, "long-polls", "LEASESTORM_LONG_POLLS", "true: polls may outlast the TTL while renewals succeed, up to --poll-timeout")
	text(&pause, "pause", "LEASESTORM_PAUSE",
		"check-send: at the first poll, stop the process after the check of the lease and before the request")
	fs.Lookup("long-polls").NoOptDefVal = "true"
	var help bool
	fs.BoolVarP(&help, "help", "h", false, "this text")

	if err := fs.read(args, &help, usage, out, "the commands are bootstrap, quarantine, replicas and health, and come first"); err != nil {
		return s, err
	}
	if err := cmp.Or(s.setStartDelay(delay), s.setReplicas(replicas)); err != nil {
		return s, err
	}
	return s, s.validate(level, renewals, long, pause)
}

func (s *settings) keyFlags(text func(p *string, flag, variable, help string)) {
	sovereign := election.Sovereign()
	text(&s.leaderKey, "leader-key", "LEASESTORM_LEADER_KEY", "election: "+sovereign.LeaderKey+" if empty")
	text(&s.polls.SessionPrefix, "session-prefix", "LEASESTORM_SESSION_PREFIX", "polling: "+poll.DefaultSessionPrefix+" if empty")
	text(&s.leases.LeasePrefix, "lease-prefix", "LEASESTORM_LEASE_PREFIX", "polling: poll:lease: if empty; on a cluster it and the next "+
		"two need one hash tag")
	text(&s.leases.NodePrefix, "heartbeat-prefix", "LEASESTORM_HEARTBEAT_PREFIX", "poll:node:, of an election "+sovereign.HeartbeatPrefix+
		", if empty")
	text(&s.leases.EpochKey, "epoch-key", "LEASESTORM_EPOCH_KEY", "poll:epoch, of an election "+sovereign.EpochKey+", if empty")
}

func (s *settings) setReplicas(text string) (err error) {
	if s.leases.Replicas, err = strconv.Atoi(cmp.Or(text, "0")); err != nil || s.leases.Replicas < 0 || s.leases.Replicas > lease.ReplicasMax {
		return fmt.Errorf("LEASESTORM_REPLICAS (--replicas) is %q; it must be a number, 0 to %d", text, lease.ReplicasMax)
	}
	return nil
}

func (s *settings) setStartDelay(text string) error {
	if text == "" {
		s.startDelay = s.leases.TTL / 3
		return nil
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 || ms > int64(24*time.Hour/time.Millisecond) {
		return fmt.Errorf("LEASESTORM_START_DELAY_MS (--start-delay) is %q; it must be milliseconds, 0 to 86400000", text)
	}
	s.startDelay = time.Duration(ms) * time.Millisecond
	return nil
}

func (s *settings) validate(level, renewals, long, pause string) error {
	s.system = cmp.Or(s.system, systemPolling)
	if s.system != systemPolling && s.system != systemElection {
		return fmt.Errorf("LEASESTORM_SYSTEM (--system) is %q; it must be one of %s", s.system,
			strings.Join([]string{systemElection, systemPolling, systemIntents}, ", "))
	}
	if err := s.Complete(); err != nil {
		return err
	}
	if err := setLevel(&s.logLevel, level, "LEASESTORM_LOG (--log)"); err != nil {
		return err
	}
	if err := setLevel(&s.renewals, renewals, "LEASESTORM_RENEW_LOG (--renew-log)"); err != nil {
		return err
	}
	switch pause {
	case "", "check-send":
		s.pauseNow = pause != ""
	default:
		return fmt.Errorf("LEASESTORM_PAUSE (--pause) is %q; the only value is check-send", pause)
	}
	if s.system != systemElection && s.heartbeat != 0 && s.heartbeat != cmp.Or(s.leases.RenewInterval, s.leases.TTL/3) {
		return fmt.Errorf("LEASESTORM_HEARTBEAT_MS (--heartbeat) is %v; the heartbeat is set with every renewal, so leave it "+
			"out or give the time between renewals", s.heartbeat)
	}
	if long != "" {
		v, err := strconv.ParseBool(long)
		if err != nil {
			return fmt.Errorf("LEASESTORM_LONG_POLLS (--long-polls) is %q; it must be true or false", long)
		}
		if s.polls.LongPolls = v; v && s.polls.Timeout == 0 {
			return errors.New("LEASESTORM_LONG_POLLS (--long-polls) needs LEASESTORM_POLL_TIMEOUT_MS (--poll-timeout): the longest that " +
				"a poll may take")
		}
	}
	return nil
}

func setLevel(level *zapcore.Level, text, name string) error {
	if text == "" {
		return nil
	}
	if err := level.Set(text); err != nil {
		return fmt.Errorf("%s is %q; it must be debug, info, warn or error", name, text)
	}
	return nil
}

func (s *settings) target() (*url.URL, error) {
	u, err := url.Parse(s.targetURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("target %q is no HTTP URL; set LEASESTORM_TARGET_URL or --target, for example to http://127.0.0.1:8080",
			s.targetURL)
	}
	return u, nil
}

func (s *settings) lease() lease.Config {
	cfg := s.leases
	cfg.RenewLogLevel = &s.renewals
	return cfg
}
