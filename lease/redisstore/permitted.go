package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

//go:embed lua/probe.lua
var probeText string

var probeScript = redis.NewScript(probeText)

// ErrDenied says that an ACL takes something away without which there are no leases; the message has the rules to add.
var ErrDenied = errors.New("the ACL of Redis denies what leases need")

// Use is what somebody will do with a store.
type Use struct {
	Registry bool     // set a heartbeat and look; with Options.ExactKeys, as elections do
	Leases   []string // the leases that are known, where Options.ExactKeys leaves no other way to know their keys
}

// Permitted finds out whether the user may do what leases need, and changes nothing: commands, keys, and the channel. An error
// is ErrDenied, with the server's words and the rules to add to the user's ACL, ErrRefused with the server's words for writes that
// are refused now, of everybody, or what went wrong on the way.
func (s *Store) Permitted(ctx context.Context, use Use) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	p := prober{s: s, ctx: ctx, use: use}
	p.note(s.client.Ping(ctx).Err(), "+ping")
	p.scripts()
	if use.Registry {
		_, _, err := s.scanPage(ctx, s.client, 0, glob(s.wire.opt.NodePrefix)+"*")
		p.note(err, "+scan")
	}
	p.note(p.subscribe(), "&"+s.wire.opt.Channel)
	return p.verdict()
}

// prober gathers what is denied.
type prober struct {
	s     *Store
	ctx   context.Context
	use   Use
	rules []string
	words []string // of the server, one for each kind of denial
	other error    // the first failure that is no denial
}

// commandDenied finds the command in the words with which Redis denies it.
var commandDenied = regexp.MustCompile(`(?:run|execute) the '([^']+)' command`)

// denies reports whether an error reply says that an ACL does not allow something. Within a script Redis 6.2 and 7.0 say it in
// other words than outside, and later ones again in others.
func denies(text string) bool {
	return strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "The user executing the script can't") ||
		strings.Contains(text, "ACL failure in script")
}

// note takes the outcome of one probe; rule is what would allow it, unless the server names a command.
func (p *prober) note(err error, rule string) {
	var reply redis.Error
	switch {
	case err == nil || errors.Is(err, redis.Nil):
	case errors.As(err, &reply) && denies(reply.Error()):
		if m := commandDenied.FindStringSubmatch(reply.Error()); m != nil {
			rule = "+" + m[1]
		}
		p.deny(rule, reply.Error())
	case p.other == nil:
		p.other = err
	}
}

func (p *prober) deny(rule, words string) {
	if rule != "" && !slices.Contains(p.rules, rule) {
		p.rules = append(p.rules, rule)
	}
	if !slices.Contains(p.words, words) {
		p.words = append(p.words, words)
	}
}

// named is a key to try, and the rule that allows all of its kind.
type named struct{ key, rule string }

// keys are what scripts will be given. A name that nobody has stands for those that are not known yet.
func (p *prober) keys() []named {
	opt := &p.s.wire.opt
	nobody := "probe-" + uuid.NewString()
	all := []named{{opt.EpochKey, "~" + glob(opt.EpochKey)}}
	leases := p.use.Leases
	if !opt.ExactKeys {
		leases = []string{nobody}
	}
	for _, id := range leases {
		k := newKeys(2, 2*keyBytes)
		k.add(opt.LeasePrefix, id)
		k.fence(opt.LeasePrefix, id, p.s.wire.tagged)
		keys := k.list()
		pattern := glob(opt.LeasePrefix) + "*"
		if opt.ExactKeys {
			pattern = glob(id)
		}
		fence := "{" + pattern + "}" + fenceSuffix
		if p.s.wire.tagged {
			fence = pattern
		}
		all = append(all, named{keys[0], "~" + pattern}, named{keys[1], "~" + fence})
	}
	if p.use.Registry {
		all = append(all, named{opt.NodePrefix + nobody, "~" + glob(opt.NodePrefix) + "*"})
	}
	return all
}

// scripts tries the commands that scripts run on keys, first all at once, and where that is refused, key by key.
func (p *prober) scripts() {
	all := p.keys()
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].key
	}
	run := p.byText
	err := p.probe(run, names...)
	if deniesCommand(err) {
		p.note(err, "")
		run = p.bySHA
		if err = p.probe(run, names...); redis.HasErrorPrefix(err, "NOSCRIPT") {
			return // what the script would find out is told once it may run
		}
	} else if err := p.bySHA(nil).Err(); deniesCommand(err) { // nothing else matters of it
		p.note(err, "")
	}
	if !deniesAny(err) {
		p.note(err, "")
		return
	}
	for i := range all {
		p.note(p.probe(run, all[i].key), all[i].rule)
	}
}

func deniesAny(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && denies(reply.Error())
}

func deniesCommand(err error) bool { return deniesAny(err) && commandDenied.MatchString(err.Error()) }

func (p *prober) byText(keys []string, args ...any) *redis.Cmd {
	return probeScript.Eval(p.ctx, p.s.client, keys, args...)
}

func (p *prober) bySHA(keys []string, args ...any) *redis.Cmd {
	return probeScript.EvalSha(p.ctx, p.s.client, keys, args...)
}

// probe runs the script and notes what it tells. The error is that of the call.
func (p *prober) probe(run func([]string, ...any) *redis.Cmd, keys ...string) error {
	told, err := run(keys, p.s.wire.opt.Channel, p.use.Registry, p.s.wire.opt.EpochKey,
		p.use.Registry && !p.s.wire.opt.ExactKeys).StringSlice()
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(told); i += 2 {
		command, words := told[i], told[i+1]
		switch {
		case denies(words) && command == "publish" && strings.Contains(words, "channel"):
			p.deny("&"+p.s.wire.opt.Channel, words)
		case denies(words):
			p.deny("+"+command, words)
		case refused(words) && !strings.HasPrefix(words, "WRONGTYPE") && p.other == nil:
			p.other = fmt.Errorf("%w: %s", ErrRefused, words)
		}
	}
	return nil
}

// subscribe tries to hear the channel.
func (p *prober) subscribe() error {
	ps := p.s.client.Subscribe(p.ctx)
	defer func() { _ = ps.Close() }()
	if err := ps.Subscribe(p.ctx, p.s.wire.opt.Channel); err != nil {
		return err
	}
	_, err := ps.ReceiveTimeout(p.ctx, p.s.wire.opt.OpTimeout)
	return err
}

func (p *prober) verdict() error {
	if len(p.rules) == 0 {
		return Cause(p.other)
	}
	return fmt.Errorf("%w: %w: %s; add %s (ACL SETUSER %s %[4]s)", ErrRefused, ErrDenied, strings.Join(p.words, "; "),
		strings.Join(p.rules, " "), user(p.s.client))
}

// Denial returns an error as that of Permitted if one of errs is of an ACL that denies something to client, and nil if none is.
// rule is what would allow it, unless the server names a command.
func Denial(client redis.UniversalClient, rule string, errs ...error) error {
	p := prober{s: &Store{client: client}}
	for _, err := range errs {
		p.note(err, rule)
	}
	if len(p.rules) == 0 {
		return nil
	}
	return p.verdict()
}

func user(client redis.UniversalClient) string {
	name := ""
	switch c := client.(type) {
	case *redis.Client:
		name = c.Options().Username
	case *redis.ClusterClient:
		name = c.Options().Username
	}
	if name == "" {
		return "default"
	}
	return name
}
