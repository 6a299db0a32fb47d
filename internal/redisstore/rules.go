package redisstore

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// ErrDenied says that an ACL takes something away without which there are no leases; the message has the line that grants
// it, and then what Redis said.
var ErrDenied = errors.New("the ACL of Redis denies what leases need")

// Rules are what an ACL must allow a user. They are known beforehand: Redis tells of one denial at a time, and of a command
// denied inside a script not even the name.
type Rules struct {
	Keys     []string // patterns
	Channels []string
	Commands []string
}

// String returns the rules as ACL SETUSER takes them.
func (r Rules) String() string {
	var all []string
	add := func(sign string, what []string) {
		for _, w := range what {
			all = append(all, sign+w)
		}
	}
	add("~", r.Keys)
	add("&", r.Channels)
	add("+", r.Commands)
	return strings.Join(all, " ")
}

// And returns the rules of both, without keys that a pattern of the other covers.
func (r Rules) And(more Rules) Rules {
	union := func(a, b []string) []string {
		all := slices.Clone(a)
		for _, x := range b {
			if !slices.Contains(all, x) {
				all = append(all, x)
			}
		}
		return all
	}
	keys := union(r.Keys, more.Keys)
	covered := func(key string) bool {
		return slices.ContainsFunc(keys, func(p string) bool {
			begin, open := strings.CutSuffix(p, "*")
			return open && p != key && strings.HasPrefix(key, begin)
		})
	}
	return Rules{Keys: slices.DeleteFunc(slices.Clone(keys), covered), Channels: union(r.Channels, more.Channels),
		Commands: union(r.Commands, more.Commands)}
}

// commands are those of every use.
const commands = "ping info time eval evalsha get set del pexpire pttl hset hmget hget publish subscribe"

// Rules returns what an ACL must allow whoever uses a store with these options.
func (o Options) Rules(use Use) Rules {
	o = o.withDefaults()
	r := Rules{Keys: []string{glob(o.EpochKey), glob(o.groupKey())}, Channels: []string{glob(o.Channel)},
		Commands: strings.Fields(commands)}
	if o.Replicas > 0 {
		r.Commands = append(r.Commands, "wait")
	}
	patterns := []string{glob(o.LeasePrefix) + "*"}
	if o.ExactKeys {
		patterns = nil
		for _, id := range use.Leases {
			patterns = append(patterns, glob(id))
		}
	}
	for _, p := range patterns {
		r.Keys = append(r.Keys, p)
		if hashTag(o.LeasePrefix) == "" {
			r.Keys = append(r.Keys, "{"+p+"}"+fenceSuffix)
		}
	}
	if use.Registry {
		r.Keys = append(r.Keys, glob(o.NodePrefix)+"*")
		r.Commands = append(r.Commands, "mget", "scan")
		if !o.ExactKeys {
			r.Commands = append(r.Commands, "exists")
		}
	}
	return r
}

// sample returns a key of a pattern: that which it names, or one that nobody has.
func sample(pattern string) string {
	var key strings.Builder
	literal := false
	for _, c := range pattern {
		switch {
		case !literal && c == '\\':
			literal = true
			continue
		case !literal && c == '*':
			key.WriteString("probe-" + uuid.NewString())
		default:
			key.WriteRune(c)
		}
		literal = false
	}
	return key.String()
}

// commandDenied finds the command in the words with which Redis denies it.
var commandDenied = regexp.MustCompile(`(?:run|execute) the '([^']+)' command`)

// denies reports whether an error reply says that an ACL does not allow something. Within a script Redis 6.2 and 7.0 say it in
// other words than outside, and later ones again in others.
func denies(text string) bool {
	return strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "The user executing the script can't") ||
		strings.Contains(text, "ACL failure in script")
}

func isDenied(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && denies(reply.Error())
}

func deniesCommand(err error) bool { return isDenied(err) && commandDenied.MatchString(err.Error()) }

// What stands before the line that grants what is denied, and before the words of the server where they follow it: what whoever stands in
// the place of one says cannot come before ours then.
const (
	grantWith  = "; grant it with: "
	serverSaid = "; Redis said: "
)

// denial is ErrDenied and ErrRefused.
type denial struct {
	words []string // of the server, one for each kind of denial
	line  string   // what grants it, "" where that is not known
}

func (d *denial) Error() string {
	words := strings.Join(d.words, "; ")
	if d.line == "" {
		return ErrRefused.Error() + ": " + ErrDenied.Error() + ": " + words
	}
	return ErrRefused.Error() + ": " + ErrDenied.Error() + grantWith + d.line + serverSaid + words
}

// Grant takes an ErrDenied apart: what is denied, in the server's words, and the line that grants it, "" where that is not known. Of the
// text of one it cannot be told where the words end: a server, or who stands in its place, may say what looks like such a line.
func Grant(err error) (denied, line string) {
	var d *denial
	if !errors.As(err, &d) {
		return err.Error(), ""
	}
	return (&denial{words: d.words}).Error(), d.line
}

func (d *denial) Is(target error) bool { return target == ErrRefused || target == ErrDenied }

// Denied returns ErrDenied if one of errs is of an ACL that denies something, and nil if none is. It asks nobody.
func Denied(errs ...error) error {
	d := &denial{}
	for _, err := range errs {
		var before *denial
		var reply redis.Error
		switch {
		case errors.As(err, &before):
			d.words = append(d.words, before.words...)
		case errors.As(err, &reply) && denies(reply.Error()):
			d.words = append(d.words, reply.Error())
		}
	}
	slices.Sort(d.words)
	if d.words = slices.Compact(d.words); len(d.words) == 0 {
		return nil
	}
	return d
}

// Explain is Denied with the line that grants the client's user all of rules. Redis accepts no pattern beside one that allows
// all, so keys and channels that the user is seen to have are left out.
func Explain(ctx context.Context, client redis.UniversalClient, rules Rules, errs ...error) error {
	var d *denial
	if !errors.As(Denied(errs...), &d) {
		return nil
	}
	d.line = Line(ctx, client, rules)
	return d
}

// Line returns the line of Explain's error; "" if ctx ended first.
func Line(ctx context.Context, client redis.UniversalClient, rules Rules) string {
	missing := Rules{Commands: rules.Commands}
	for _, p := range rules.Keys {
		key := sample(p)
		// The write is refused for its syntax, after Redis has decided whether the key may be written.
		if !allowed(client.Get(ctx, key).Err(), client.Do(ctx, "SET", key, "", "NX", "XX").Err()) {
			missing.Keys = append(missing.Keys, p)
		}
	}
	for _, c := range rules.Channels {
		name := sample(c)
		if !allowed(client.Publish(ctx, name, "probe").Err(), subscribe(ctx, client, name, OpTimeoutDefault)) {
			missing.Channels = append(missing.Channels, c)
		}
	}
	if ctx.Err() != nil {
		return ""
	}
	return "ACL SETUSER " + user(client) + " " + missing.String()
}

// Line is Line for what use needs.
func (s *Store) Line(ctx context.Context, use Use) string {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return Line(ctx, s.client, s.wire.opt.Rules(use))
}

// granted is a denial with the line that grants it.
type granted struct {
	error
	line string
}

func (g granted) Error() string        { return g.error.Error() + grantWith + g.line }
func (g granted) Is(target error) bool { return target == ErrDenied }
func (g granted) Unwrap() error        { return g.error }

// Granting returns err, and if it is of an ACL that denies something and does not say it yet, with the line that grants that. No line
// is "".
func Granting(err error, line string) error {
	if line == "" || !Denies(err) || errors.Is(err, ErrDenied) {
		return err
	}
	return granted{err, line}
}

// allowed reports whether attempts on a key or a channel show that the user has it: one came so far, and none failed for it. A
// command that is denied shows nothing.
func allowed(errs ...error) bool {
	seen := false
	for _, err := range errs {
		var reply redis.Error
		switch answered := err == nil || errors.As(err, &reply); {
		case answered && !isDenied(err):
			seen = true
		case answered && !deniesCommand(err):
			return false
		}
	}
	return seen
}

func user(client redis.UniversalClient) string {
	if name := login(client); name != "" {
		return name
	}
	return "default"
}

// login returns a client's user, "" where it has none.
func login(client redis.UniversalClient) string {
	switch c := client.(type) {
	case interface{ Options() *redis.Options }:
		return c.Options().Username
	case *redis.ClusterClient:
		return c.Options().Username
	}
	return ""
}
