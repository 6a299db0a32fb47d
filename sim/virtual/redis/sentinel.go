package redis

import (
	"slices"
	"strings"
)

// Watch is what a sentinel knows of the servers that it watches.
type Watch struct {
	Name     string // of the master
	Master   Addr
	Replicas []Watched
}

// Watched is a replica, as a sentinel knows it.
type Watched struct {
	Addr

	RunID string
	Down  bool
}

// Addr is the address of a server.
type Addr struct{ Host, Port string }

func (a Addr) String() string { return a.Host + ":" + a.Port }

// shared are the commands that a sentinel has from a server.
var shared = []string{
	"HELLO", "AUTH", "CLIENT", "PING", "COMMAND", "SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "ROLE", "SENTINEL",
}

// verb returns a command that concerns the connection, and false for another one.
func (f *Front) verb(name string) (v frontVerb, own bool) {
	v, own = frontVerbs[name]
	if f.server.Config.Watch == nil {
		return v, own && name != "SENTINEL"
	}
	return v, own && slices.Contains(shared, name)
}

// keyVerb returns a command that concerns keys, which a sentinel does not have.
func (f *Front) keyVerb(name string) (v verb, known bool) {
	if f.server.Config.Watch != nil {
		return verb{}, false
	}
	v, known = verbs[name]
	return v, known
}

// watchVerbs are the subcommands of SENTINEL. Do not range over it.
var watchVerbs = map[string]frontVerb{
	"GET-MASTER-ADDR-BY-NAME": {args: 1, most: 1, run: masterAddr},
	"SENTINELS":               {args: 1, most: 1, run: ofMaster(func(Watch) Reply { return []Reply{} })},
	"REPLICAS":                {args: 1, most: 1, run: ofMaster(Watch.replicas)},
	"SLAVES":                  {args: 1, most: 1, run: ofMaster(Watch.replicas)},
}

func sentinel(f *Front, args []string) Reply { return watchVerbs[upper(args[0])].run(f, args[1:]) }

func masterAddr(f *Front, args []string) Reply {
	w := f.server.Config.Watch()
	if args[0] != w.Name {
		return noList{}
	}
	return []Reply{w.Master.Host, w.Master.Port}
}

func ofMaster(list func(Watch) Reply) func(*Front, []string) Reply {
	return func(f *Front, args []string) Reply {
		w := f.server.Config.Watch()
		if args[0] != w.Name {
			return Refusal("ERR No such master with that name")
		}
		return list(w)
	}
}

// replicas has the fields that clients read.
func (w Watch) replicas() Reply {
	all := make([]Reply, len(w.Replicas))
	for i, r := range w.Replicas {
		flags := "slave"
		if r.Down {
			flags = "s_down,slave,disconnected"
		}
		all[i] = dict{
			"name", r.String(), "ip", r.Host, "port", r.Port, "runid", r.RunID, "flags", flags,
			"master-host", w.Master.Host, "master-port", w.Master.Port,
		}
	}
	return all
}

// Switched publishes to the clients of a sentinel that the master has moved from the address before.
func (r *Server) Switched(before Addr) {
	w := r.Config.Watch()
	r.Publish("+switch-master", strings.Join([]string{w.Name, before.Host, before.Port, w.Master.Host, w.Master.Port}, " "))
}
