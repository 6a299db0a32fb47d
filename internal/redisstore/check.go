package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/redis/go-redis/v9"
)

var (
	// ErrUnreachable means that there is no connection, or no answer in time.
	ErrUnreachable = errors.New("no answer from Redis")
	// ErrNotRedis means that the server is not a Redis.
	ErrNotRedis = errors.New("not a Redis")
	// ErrAuth means that Redis requires a password, or that the given one is wrong.
	ErrAuth = errors.New("not authenticated at Redis")
	// ErrReadOnly means that the server is a replica, which refuses writes.
	ErrReadOnly = errors.New("a read-only replica")
	// ErrTooOld means that Redis is older than versionMin.
	ErrTooOld = errors.New("redis is too old")
	// ErrReplicas means that Redis has more replicas than Options.Replicas, so two masters could both have a majority.
	ErrReplicas = errors.New("more replicas than configured")
	// errNotReady means that Redis is loading its data or has lost its master. It may work later.
	errNotReady = errors.New("not ready")
)

// versionMin is the oldest Redis that the scripts support.
const versionMin = "6.2.0"

// Warning is one sentence about a guarantee that the server weakens.
type Warning string

// Check returns an error if the server cannot hold leases, and warnings if it weakens a guarantee. It changes nothing.
func (s *Store) Check(ctx context.Context) ([]Warning, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	if err := s.client.Ping(ctx).Err(); err != nil && !Denies(err) { // Permitted reports denials
		return nil, Diagnose(err)
	}
	info, err := s.info(ctx)
	if err != nil && !Lacks(err) {
		return nil, Diagnose(err)
	}
	return verdict(Judge(info, s.wire.opt.Replicas))
}

func verdict(all []Finding) (warnings []Warning, err error) {
	for _, f := range all {
		if f.Err != nil {
			return nil, f.Err
		}
		warnings = append(warnings, Warning(f.What+": "+f.Consequence+". To mend it: "+f.Mend))
	}
	return warnings, nil
}

// Finding is an actual or possible problem of a server.
type Finding struct {
	Name        string // a stable word, for programs
	What        string
	Consequence string
	Mend        string
	Err         error // returned by Start; nil means only a warning
}

// Judge derives findings from INFO, for a Redis with the given number of replicas.
func Judge(said Info, replicas int) (all []Finding) {
	if !said.Known() {
		return []Finding{{Name: "info", What: "INFO is denied, or renamed", Consequence: "version, role and eviction policy are not " +
			"checked, and a restart of Redis with its data is not noticed (a loss of all data is)", Mend: "ACL SETUSER <user> +info"}}
	}
	info := said.Fields
	all = judgeVersion(said)
	if info["role"] == "slave" && info["slave_read_only"] != "0" {
		master := info["master_host"] + ":" + info["master_port"]
		err := fmt.Errorf("%w: %w (its master is %s): connect to the master", ErrRefused, ErrReadOnly, master)
		all = append(all, Finding{Name: "role", What: "this is a read-only replica of " + master,
			Consequence: "no lease can be acquired here", Mend: "name the master (--redis), or the sentinels that know it (--sentinels)", Err: err})
	}
	if info["run_id"] == "" {
		all = append(all, Finding{Name: "run-id", What: "INFO shows no run_id", Consequence: "a restart of Redis with its data, or a " +
			"failover, is not noticed (a loss of all data is)", Mend: "have INFO server show it"})
	}
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" && info["maxmemory"] != "0" {
		all = append(all, Finding{Name: "eviction", What: "maxmemory-policy " + policy + " may evict a living lease",
			Consequence: "then two instances can own it for up to one renewal interval",
			Mend:        "CONFIG SET maxmemory-policy noeviction, and CONFIG REWRITE"})
	}
	if replicas > 0 {
		all = append(all, judgeReplicas(said, replicas)...)
	}
	return all
}

func judgeReplicas(info Info, replicas int) []Finding {
	switch n := info.Acknowledging; {
	case n > replicas:
		err := fmt.Errorf("%w: %d acknowledge and Replicas is %d, so two masters could both have a majority; set it to %d in every "+
			"instance, or remove the surplus replicas for good", ErrReplicas, n, replicas, n)
		return []Finding{{Name: "replicas", What: fmt.Sprintf("%d replicas acknowledge and Replicas is %d", n, replicas),
			Consequence: "two masters could both have a majority", Mend: fmt.Sprintf("set Replicas to %d in every instance", n), Err: err}}
	case n < replicas:
		o := Options{Replicas: replicas}
		return []Finding{{Name: "replicas", What: fmt.Sprintf("%d of %d replicas are attached to Redis", n, replicas),
			Consequence: fmt.Sprintf("a write needs %d of them", o.acks()), Mend: "start the others, and look at their logs"}}
	}
	return nil
}

// Surplus returns ErrReplicas if more replicas than Options.Replicas acknowledge. Any other error means that the number is unknown.
// Surplus sends one command and needs no rights beyond those of Check.
func (s *Store) Surplus(ctx context.Context) error {
	info, err := s.info(ctx, "replication")
	if err != nil {
		return err
	}
	_, err = verdict(judgeReplicas(info, s.wire.opt.Replicas))
	return err
}

func judgeVersion(info Info) []Finding {
	version, known := info.Fields["redis_version"]
	unknown := Finding{Name: "version", What: "INFO shows no redis_version", Consequence: "the version is not checked",
		Mend: "at least " + versionMin + " is required"}
	if !known {
		return []Finding{unknown}
	}
	v, err := semver.NewVersion(version)
	switch {
	case err != nil:
		unknown.What = fmt.Sprintf("redis_version \"%s\" is no version", version)
		return []Finding{unknown}
	case v.LessThan(semver.MustParse(versionMin)):
		err := fmt.Errorf("%w: version %s; at least %s is required", ErrTooOld, version, versionMin)
		return []Finding{{Name: "version", What: "Redis " + version + " is too old", Consequence: "the scripts do not run there",
			Mend: "upgrade it to " + versionMin + " or later", Err: err}}
	}
	return nil
}

// Diagnose wraps an error of the first contact with a server in the Err value that names its cause.
func Diagnose(err error) error {
	for _, told := range []error{ErrDenied, ErrUnreachable, ErrNotRedis, ErrAuth, errNotReady, ErrReadOnly} {
		if errors.Is(err, told) {
			return err
		}
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		if strings.Contains(err.Error(), "redis: can't parse") || strings.Contains(err.Error(), "redis: invalid reply") {
			return fmt.Errorf("%w: %w", ErrNotRedis, err)
		}
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	code, _, _ := strings.Cut(reply.Error(), " ")
	switch code {
	case "NOAUTH", "WRONGPASS":
		return fmt.Errorf("%w: give user name and password to the client (in a URL: redis://user:password@host): %w",
			ErrAuth, Cause(err))
	case "LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY":
		return fmt.Errorf("%w: %w", errNotReady, Cause(err))
	case "READONLY":
		return fmt.Errorf("%w: %w", ErrReadOnly, Cause(err))
	}
	return Cause(err)
}
