package redisstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisclient"
)

// Use is what somebody will do with a store.
type Use struct {
	Registry bool     // set a heartbeat and look; with Options.ExactKeys, as elections do
	Leases   []string // the leases that are known, where Options.ExactKeys leaves no other way to know their keys
}

// Permitted finds out whether the user may do what leases need, and changes nothing: commands, keys, and the channel. An error
// is ErrDenied, with the server's words and the rules to add to the user's ACL, ErrRefused with the server's words for writes
// that are refused now, of everybody, or what went wrong on the way.
func (s *Store) Permitted(ctx context.Context, use Use) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	rules := s.wire.opt.Rules(use)
	errs := append([]error{s.client.Ping(ctx).Err()}, s.probe(ctx, use, rules.Keys)...)
	if use.Registry {
		errs = append(errs, ScanDenied(ctx, s.client, s.wire.opt.NodePrefix))
	}
	if s.wire.opt.Replicas > 0 {
		errs = append(errs, s.client.Do(ctx, "WAIT", 0, 1).Err())
	}
	errs = append(errs, subscribe(ctx, s.client, s.wire.opt.Channel, s.wire.opt.OpTimeout))
	for i, err := range errs { // no hook sees what is said on the channel's connection
		errs[i] = redisclient.Mask(err)
	}
	if err := Explain(ctx, s.client, rules, errs...); err != nil {
		return err
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, redis.Nil) {
			return Cause(err)
		}
	}
	return nil
}

// probe runs the commands of the scripts on a key of each pattern, and returns what was said against it.
func (s *Store) probe(ctx context.Context, use Use, patterns []string) (errs []error) {
	keys := make([]string, len(patterns))
	for i, pattern := range patterns {
		keys[i] = sample(pattern)
	}
	opt := &s.wire.opt
	said, err := probeScript.Eval(ctx, s.client, keys, opt.Channel, use.Registry, opt.EpochKey, use.Registry && !opt.ExactKeys,
		opt.groupKey()).StringSlice()
	errs = append(errs, err)
	for i := 1; i < len(said); i += 2 {
		command, words := said[i-1], said[i]
		if strings.Contains(words, "command") && !commandDenied.MatchString(words) {
			words += " (" + command + ")" // within a script Redis does not say which
		}
		if denies(words) || refused(words) && !strings.HasPrefix(words, "WRONGTYPE") {
			errs = append(errs, reply(words))
		}
	}
	if err := probeScript.EvalSha(ctx, s.client, nil).Err(); isDenied(err) { // nothing else matters of it
		errs = append(errs, err)
	}
	return errs
}

// reply is an error reply that a script was given.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// subscribe tries to hear the channel.
func subscribe(ctx context.Context, client redis.UniversalClient, channel string, timeout time.Duration) error {
	ps := client.Subscribe(ctx)
	defer func() { _ = ps.Close() }()
	if err := ps.Subscribe(ctx, channel); err != nil {
		return err
	}
	_, err := ps.ReceiveTimeout(ctx, timeout)
	return err
}
