package redisstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/redis/go-redis/v9"
)

// Errors of Check, by what is wrong with the server.
var (
	// ErrUnreachable says that there is no connection, or no answer in time.
	ErrUnreachable = errors.New("no answer from Redis")
	// ErrNotRedis says that something answers that is no Redis.
	ErrNotRedis = errors.New("not a Redis")
	// ErrAuth says that a password is wanted, or the one given is wrong.
	ErrAuth = errors.New("not authenticated at Redis")
	// ErrReadOnly says that this is a replica, which refuses writes.
	ErrReadOnly = errors.New("a read-only replica")
	// ErrTooOld says that Redis is older than VersionMin.
	ErrTooOld = errors.New("too old a Redis")
	// ErrReplicas says that Redis has more replicas than Options.Replicas: a majority of fewer is none.
	ErrReplicas = errors.New("more replicas than configured")
	// ErrNotReady says that Redis is loading its data or has lost its master; it may work later.
	ErrNotReady = errors.New("not ready")
)

// VersionMin is the oldest Redis that the scripts are made for.
const VersionMin = "6.2.0"

// Warning is one sentence on what a server, though usable, cannot promise.
type Warning string

// Check says whether the server can carry leases, as an error for what makes that impossible and as warnings for what
// weakens a guarantee. It changes nothing.
func (s *Store) Check(ctx context.Context) ([]Warning, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	if err := s.client.Ping(ctx).Err(); err != nil && !deniesCommand(err) { // what is denied, Permitted tells
		return nil, diagnose(err)
	}
	text, err := s.info(ctx)
	if err != nil {
		if strings.HasPrefix(err.Error(), "NOPERM") {
			return []Warning{"INFO is denied: version, role and eviction policy are not checked, and a restart of Redis " +
				"with its data is not noticed (a loss of all data is)"}, nil
		}
		return nil, diagnose(err)
	}
	info := parseInfo(text)
	warnings, err := judge(info)
	if err != nil || s.wire.opt.Replicas == 0 {
		return warnings, err
	}
	few, err := s.wire.opt.judgeReplicas(info)
	return append(warnings, few...), err
}

// judgeReplicas compares Options.Replicas with who acknowledges. What is attached and never does, such as a witness, is none.
func (o *Options) judgeReplicas(info map[string]string) ([]Warning, error) {
	acknowledge := 0
	for key, value := range info {
		if strings.HasPrefix(key, "slave") && strings.Contains(value, "state=online") && !strings.Contains(value, "offset=0,") {
			acknowledge++
		}
	}
	switch {
	case acknowledge > o.Replicas:
		return nil, fmt.Errorf("%w: %d acknowledge and Replicas is %d, so two masters could both have a majority; set it to %d in every "+
			"instance", ErrReplicas, acknowledge, o.Replicas, acknowledge)
	case acknowledge < o.Replicas:
		return []Warning{Warning(fmt.Sprintf("%d of %d replicas are attached to Redis, and what counts needs %d of them", acknowledge,
			o.Replicas, o.acks()))}, nil
	}
	return nil, nil
}

func (s *Store) info(ctx context.Context) (string, error) {
	server, err := s.server(ctx)
	if err != nil {
		return "", err
	}
	return server.Info(ctx).Result()
}

// judge draws the conclusions from INFO.
func judge(info map[string]string) ([]Warning, error) {
	var warnings []Warning
	version, known := info["redis_version"]
	if !known {
		warnings = append(warnings, "INFO shows no redis_version: the version is not checked (at least "+VersionMin+
			" is required)")
	} else if v, err := semver.NewVersion(version); err != nil {
		warnings = append(warnings, Warning(fmt.Sprintf("redis_version %q is no version: at least %s is required",
			version, VersionMin)))
	} else if v.LessThan(semver.MustParse(VersionMin)) {
		return nil, fmt.Errorf("%w: version %s; at least %s is required", ErrTooOld, version, VersionMin)
	}
	if info["role"] == "slave" && info["slave_read_only"] != "0" {
		return nil, fmt.Errorf("%w: %w (its master is %s:%s): leases must be taken at the master", ErrRefused, ErrReadOnly,
			info["master_host"], info["master_port"])
	}
	if info["run_id"] == "" {
		warnings = append(warnings, "INFO shows no run_id: a restart of Redis with its data, or a failover, is not noticed "+
			"(a loss of all data is)")
	}
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" && info["maxmemory"] != "0" {
		warnings = append(warnings, Warning(fmt.Sprintf("maxmemory-policy %s may evict a living lease, and then two "+
			"instances can own it for up to one renewal interval; set noeviction", policy)))
	}
	return warnings, nil
}

func parseInfo(text string) map[string]string {
	info := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if key, value, ok := strings.Cut(strings.TrimSpace(lines.Text()), ":"); ok {
			info[key] = value
		}
	}
	return info
}

// diagnose names the condition behind the first error of a server.
func diagnose(err error) error {
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
		return fmt.Errorf("%w: %w", ErrNotReady, Cause(err))
	case "READONLY":
		return fmt.Errorf("%w: %w", ErrReadOnly, Cause(err))
	}
	return Cause(err)
}
