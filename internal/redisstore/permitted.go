package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisclient"
)

// ErrDenied means that an ACL denies a command that leases need, or that Redis lacks it. An ACL's message ends with the line to grant it.
var ErrDenied = errors.New("the ACL of Redis denies what leases need")

// Permitted tries the commands, keys and channel that use needs, and changes nothing. It returns ErrDenied, with the line that grants all
// of them. It returns ErrRefused if Redis refuses all writes now, or else the connection's error. It tries each command, because the
// users of docs/redis.md may call neither COMMAND INFO nor ACL DRYRUN.
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
	for i, err := range errs { // no hook masks errors of the channel's connection
		errs[i] = missing(redisclient.Mask(err))
	}
	if err := Explain(s.client, rules, errs...); err != nil {
		return err
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, redis.Nil) {
			return Cause(err)
		}
	}
	return nil
}

var sample = strings.NewReplacer(`\\`, `\`, `\*`, `*`, `\?`, `?`, `\[`, `[`, `\]`, `]`, `*`, "probe")

// probe runs the commands of the scripts on a key of each pattern, and returns their errors.
func (s *Store) probe(ctx context.Context, use Use, patterns []string) (errs []error) {
	keys := make([]string, len(patterns))
	for i, pattern := range patterns {
		keys[i] = sample.Replace(pattern)
	}
	opt := &s.wire.opt
	said, err := probeScript.Eval(ctx, s.client, keys, opt.Channel, use.Registry, opt.EpochKey, use.Registry && !opt.ExactKeys,
		opt.groupKey()).StringSlice()
	errs = append(errs, err)
	for i := 1; i < len(said); i += 2 {
		command, words := said[i-1], said[i]
		switch {
		case strings.Contains(words, "Unknown Redis command"):
			errs = append(errs, without(command))
		case denies(words):
			errs = append(errs, redisclient.Reply(words+" ("+command+")")) // Redis does not name a command that it denies in a script
		case refused(words) && !strings.HasPrefix(words, "WRONGTYPE"):
			errs = append(errs, redisclient.Reply(words))
		}
	}
	if err := probeScript.EvalSha(ctx, s.client, nil).Err(); Lacks(err) { // other errors do not matter
		errs = append(errs, err)
	}
	return errs
}

func without(command string) error {
	return fmt.Errorf("%w: %w: Redis has no command %s: undo its rename-command", ErrRefused, ErrDenied, command)
}

// missing returns the error of without for a command that Redis does not know, and any other error unchanged.
func missing(err error) error {
	if Denies(err) || !Lacks(err) {
		return err
	}
	words := strings.FieldsFunc(err.Error(), func(r rune) bool { return strings.ContainsRune(" '`,", r) })
	if at := slices.Index(words, "command") + 1; at < len(words) {
		return without(strings.ToUpper(words[at]))
	}
	return err
}

func subscribe(ctx context.Context, client redis.UniversalClient, channel string, timeout time.Duration) error {
	ps := client.Subscribe(ctx)
	defer func() { _ = ps.Close() }()
	if err := ps.Subscribe(ctx, channel); err != nil {
		return err
	}
	_, err := ps.ReceiveTimeout(ctx, timeout)
	return err
}

// denies reports whether an error reply is a denial by an ACL. Redis 6.2, 7.0 and later versions word it differently within a script.
func denies(text string) bool {
	return strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "The user executing the script can't") ||
		strings.Contains(text, "ACL failure in script")
}

type granted struct {
	error
	line string
}

func (g granted) Error() string        { return g.error.Error() + "; grant it with: " + g.line }
func (g granted) Is(target error) bool { return target == ErrDenied }
func (g granted) Unwrap() error        { return g.error }

// Granting adds line, which grants the denied rights, to a denial. It returns other errors unchanged.
func Granting(err error, line string) error {
	if _, known := errors.AsType[granted](err); known || line == "" || !Denies(err) {
		return err
	}
	return granted{err, line}
}

// Grant splits an ErrDenied into the denial and the line that grants it, "" if unknown.
func Grant(err error) (denied, line string) {
	if g, ok := errors.AsType[granted](err); ok {
		return g.error.Error(), g.line
	}
	return err.Error(), ""
}

// Denied returns the first denial among errs, as ErrDenied and ErrRefused, or nil.
func Denied(errs ...error) error {
	for _, err := range errs {
		switch {
		case errors.Is(err, ErrDenied):
			return err
		case Denies(err):
			var reply redis.Error
			errors.As(err, &reply)
			return fmt.Errorf("%w: %w: %w", ErrRefused, ErrDenied, reply)
		}
	}
	return nil
}

// Explain is Denied with a line that grants the client's user all of rules. It replaces any line that grants less.
func Explain(client redis.UniversalClient, rules Rules, errs ...error) error {
	denied := Denied(errs...)
	if g, ok := errors.AsType[granted](denied); ok {
		denied = g.error
	}
	return Granting(denied, Line(client, rules))
}

// Line returns the line that grants the client's user all of rules, in the form of docs/redis.md.
func Line(client redis.UniversalClient, rules Rules) string {
	return "ACL SETUSER " + cmp.Or(login(client), "default") + " " + rules.String()
}

// Line returns the line that grants the rights for use.
func (s *Store) Line(use Use) string { return Line(s.client, s.wire.opt.Rules(use)) }

func login(client redis.UniversalClient) string {
	switch c := client.(type) {
	case interface{ Options() *redis.Options }:
		return c.Options().Username
	case *redis.ClusterClient:
		return c.Options().Username
	}
	return ""
}
