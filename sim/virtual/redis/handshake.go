package redis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// version is the Redis that the model imitates.
const version = "7.0.15"

// frontVerbs are the commands that concern the connection, or the server as a whole. Do not range over it.
var frontVerbs map[string]frontVerb

func init() {
	frontVerbs = map[string]frontVerb{
		"HELLO":  {run: (*Front).hello},
		"AUTH":   {args: 1, most: 2, run: accept},
		"CLIENT": {args: 1, run: (*Front).client},
		"SELECT": {args: 1, most: 1, run: selectDB},
		"RESET":  {run: (*Front).reset},
		"QUIT":   {run: (*Front).quit},
		"PING":   {most: 1, run: (*Front).ping},
		"ECHO":   {args: 1, most: 1, run: func(_ *Front, args []string) Reply { return args[0] }},

		"MULTI":   {run: (*Front).begin},
		"EXEC":    {run: (*Front).exec},
		"DISCARD": {run: (*Front).discard},
		"WATCH":   {args: 1, run: (*Front).watch},
		"UNWATCH": {run: (*Front).unwatch},

		"SUBSCRIBE":    {args: 1, run: subscriber("subscribe", channelsOf, true)},
		"UNSUBSCRIBE":  {run: subscriber("unsubscribe", channelsOf, false)},
		"PSUBSCRIBE":   {args: 1, run: subscriber("psubscribe", patternsOf, true)},
		"PUNSUBSCRIBE": {run: subscriber("punsubscribe", patternsOf, false)},

		"CLUSTER":   {args: 1, run: alone},
		"READONLY":  {run: alone},
		"READWRITE": {run: alone},
		"COMMAND":   {run: func(*Front, []string) Reply { return []Reply{} }},
		"CONFIG":    {args: 1, run: config},
		"ROLE":      {run: role},
		"WAIT":      {args: 2, most: 2, run: wait},

		"SENTINEL": {args: 1, run: sentinel},
	}
}

func accept(*Front, []string) Reply { return status("OK") }

func alone(*Front, []string) Reply { return Refusal("ERR This instance has cluster support disabled") }

func (f *Front) hello(args []string) Reply {
	resp3 := f.resp3
	if len(args) > 0 {
		n, err := strconv.Atoi(args[0])
		switch {
		case err != nil:
			return Refusal("ERR Protocol version is not an integer or out of range")
		case n != 2 && n != 3:
			return Refusal("NOPROTO unsupported protocol version")
		}
		resp3 = n == 3
	}
	name := f.name
	for i := 1; i < len(args); i++ {
		switch option := upper(args[i]); {
		case option == "AUTH" && i+2 < len(args):
			i += 2
		case option == "SETNAME" && i+1 < len(args):
			i++
			name = args[i]
		default:
			return Refusal("ERR Syntax error in HELLO option '" + args[i] + "'")
		}
	}
	f.resp3, f.name = resp3, name
	proto := int64(2)
	if resp3 {
		proto = 3
	}
	out := dict{"server", "redis", "version", version, "proto", proto, "id", f.id, "mode"}
	if f.server.Config.Watch != nil {
		return append(out, "sentinel", "modules", []Reply{})
	}
	return append(out, "standalone", "role", f.server.role(), "modules", []Reply{})
}

func (r *Server) role() string {
	if r.Readonly > 0 {
		return "replica"
	}
	return "master"
}

func role(f *Front, _ []string) Reply {
	if w := f.server.Config.Watch; w != nil {
		return []Reply{"sentinel", []Reply{w().Name}}
	}
	if f.server.Readonly > 0 {
		return []Reply{"slave", "127.0.0.1", int64(6379), "connected", int64(0)}
	}
	return []Reply{"master", int64(0), []Reply{}}
}

func selectDB(_ *Front, args []string) Reply {
	n, err := strconv.Atoi(args[0])
	switch {
	case err != nil:
		return Refusal(textNotInteger)
	case n != 0:
		return Refusal("ERR DB index is out of range")
	}
	return status("OK")
}

func (f *Front) reset([]string) Reply {
	f.endTransaction()
	f.channels, f.patterns, f.tracking, f.name, f.resp3 = nil, nil, tracking{}, "", false
	return status("RESET")
}

func (f *Front) quit([]string) Reply {
	f.closes = true
	return status("OK")
}

func (f *Front) ping(args []string) Reply {
	text := slices.Concat(args, []string{""})[0]
	switch {
	case !f.resp3 && len(f.channels)+len(f.patterns) > 0:
		return []Reply{"pong", text}
	case len(args) == 0:
		return status("PONG")
	}
	return text
}

// wait is WAIT. A server does not know what its replicas acknowledge.
func wait(f *Front, args []string) Reply {
	n, err := strconv.Atoi(args[0])
	ms, err2 := strconv.ParseInt(args[1], 10, 64)
	switch {
	case f.server.Readonly > 0:
		return Refusal(textReplicaWaits)
	case err != nil:
		return Refusal(textNotInteger)
	case err2 != nil:
		return Refusal("ERR timeout is not an integer or out of range")
	case ms < 0:
		return Refusal("ERR timeout is negative")
	}
	if n <= 0 {
		return int64(0)
	}
	return WaitFor{Replicas: n, Block: ms}
}

const textReplicaWaits = "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is " +
	"configured to be writable (which is not the default) writes to replicas are just local and are not propagated."

// settings are the answers to CONFIG GET.
var settings = [][2]string{
	{"appendonly", "no"}, {"databases", "16"}, {"maxmemory", "0"}, {"maxmemory-policy", "noeviction"}, {"min-replicas-to-write", "0"},
	{"notify-keyspace-events", ""}, {"save", ""}, {"timeout", "0"},
}

func config(_ *Front, args []string) Reply {
	if upper(args[0]) == "RESETSTAT" {
		return status("OK")
	}
	out := dict{}
	for _, s := range settings {
		if slices.ContainsFunc(args[1:], func(pattern string) bool { return matches(strings.ToLower(pattern), s[0]) }) {
			out = append(out, s[0], s[1])
		}
	}
	return out
}

// clientVerbs are the subcommands of CLIENT. Do not range over it.
var clientVerbs = map[string]frontVerb{
	"ID":           {run: func(f *Front, _ []string) Reply { return f.id }},
	"GETNAME":      {run: (*Front).getName},
	"SETNAME":      {args: 1, most: 1, run: (*Front).setName},
	"INFO":         {run: func(f *Front, _ []string) Reply { return verbatim(f.info()) }},
	"LIST":         {run: clients},
	"NO-EVICT":     {args: 1, most: 1, run: accept},
	"TRACKING":     {args: 1, run: (*Front).track},
	"TRACKINGINFO": {run: func(f *Front, _ []string) Reply { return f.trackingInfo() }},
	"CACHING":      {args: 1, most: 1, run: (*Front).exempt},
	"GETREDIR":     {run: func(f *Front, _ []string) Reply { return f.trackingInfo().(dict)[3] }},
}

func (f *Front) client(args []string) Reply { return clientVerbs[upper(args[0])].run(f, args[1:]) }

// subcommandRefusal returns why Redis does not know a subcommand, "" if it does.
func subcommandRefusal(name string, args []string) Refusal {
	known, word := true, upper(args[0])
	var v frontVerb
	switch name {
	case "CLIENT":
		v, known = clientVerbs[word]
	case "CONFIG":
		known = word == "GET" || word == "RESETSTAT"
	case "SENTINEL":
		v, known = watchVerbs[word]
	case "SCRIPT":
		known = word == "LOAD" || word == "EXISTS" || word == "FLUSH"
	}
	switch n := len(args) - 1; {
	case !known:
		return unknownSubcommand(name, args[0])
	case n < v.args || v.most > 0 && n > v.most:
		return wrongNumber(name + "|" + args[0])
	}
	return ""
}

func (f *Front) getName([]string) Reply {
	if f.name == "" {
		return nil
	}
	return f.name
}

func (f *Front) setName(args []string) Reply {
	if strings.ContainsFunc(args[0], func(r rune) bool { return r < '!' || r > '~' }) {
		return Refusal("ERR Client names cannot contain spaces, newlines or special characters.")
	}
	f.name = args[0]
	return status("OK")
}

func (f *Front) info() string {
	resp := 2
	if f.resp3 {
		resp = 3
	}
	return fmt.Sprintf("id=%d name=%s db=0 sub=%d psub=%d resp=%d\n", f.id, f.name, len(f.channels), len(f.patterns), resp)
}

func clients(f *Front, _ []string) Reply {
	var b strings.Builder
	for _, o := range f.server.fronts {
		b.WriteString(o.info())
	}
	return verbatim(b.String())
}
