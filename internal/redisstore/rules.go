package redisstore

import (
	"slices"
	"strings"
)

// Use is the intended use of a store.
type Use struct {
	Registry bool     // heartbeats and discoveries; elections with Options.ExactKeys use them too
	Leases   []string // all leases, if Options.ExactKeys leaves no prefix to find them
}

// Rules are the rights that an ACL must grant. Redis reports only one denial at a time, and does not name a command denied in a script.
type Rules struct {
	Keys     []string
	Channels []string
	Commands []string
}

// String returns the rules in the syntax of ACL SETUSER.
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

// And returns the union of both, without keys that another pattern covers.
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

const commands = "ping info time eval evalsha get set del pexpire pttl hset hmget hget publish subscribe"

// Rules returns the rights that the user of a store with these options needs.
func (o Options) Rules(use Use) Rules {
	o = o.withDefaults()
	r := Rules{Keys: []string{Glob(o.EpochKey), Glob(o.groupKey())}, Channels: []string{Glob(o.Channel)},
		Commands: strings.Fields(commands)}
	if o.Replicas > 0 {
		r.Commands = append(r.Commands, "wait")
	}
	patterns := []string{Glob(o.LeasePrefix) + "*"}
	if o.ExactKeys {
		patterns = nil
		for _, id := range use.Leases {
			patterns = append(patterns, Glob(id))
		}
	}
	for _, p := range patterns {
		r.Keys = append(r.Keys, p)
		if hashTag(o.LeasePrefix) == "" {
			r.Keys = append(r.Keys, "{"+p+"}"+fenceSuffix)
		}
	}
	if use.Registry {
		r.Keys = append(r.Keys, Glob(o.NodePrefix)+"*")
		r.Commands = append(r.Commands, "mget", "scan")
		if !o.ExactKeys {
			r.Commands = append(r.Commands, "exists")
		}
	}
	return r
}
