package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/sessionid"
	"github.com/leasestorm/leasestorm/lease/poll"
)

// finding is one result of check. Its JSON fields and names are stable.
type finding struct {
	Name        string `json:"finding"`
	What        string `json:"what"`
	Consequence string `json:"consequence"`
	Mend        string `json:"mend"`
}

func newCheck(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Find problems of Redis and of the group, each with its consequence and the command that mends it",
		Long: `Check a Redis for settings that make leases unsafe or impossible. Connect as the user that the instances use, so that missing ACL
rights show up. check changes nothing. To test rights, it sends writes with a syntax error, which Redis refuses, and publishes one
message on the group's channel, which instances ignore.
Exit code 1: check found a problem.`,
		Args: noArgs,
		RunE: f.with(func(cmd *cobra.Command, g *group, _ []string) error {
			all, err := g.findings(cmd.Context(), f)
			if err != nil {
				return err
			}
			if f.json {
				err = writeJSON(cmd, map[string]any{"findings": all})
			} else {
				out := cmd.OutOrStdout()
				for _, x := range all {
					fmt.Fprintf(out, "%s: %s\n    then:    %s\n    mend it: %s\n", x.Name, plain.Text(x.What), plain.Text(x.Consequence),
						plain.Text(x.Mend))
				}
				count := "findings"
				if len(all) == 1 {
					count = "finding"
				}
				_, err = fmt.Fprintln(out, len(all), count)
			}
			if err == nil && len(all) > 0 {
				err = errFindings
			}
			return err
		}),
	}
}

func (g *group) findings(ctx context.Context, f *flags) ([]finding, error) {
	all := []finding{}
	acl, err := g.denied(ctx)
	if err != nil {
		return nil, err
	}
	all = append(all, acl...)
	now, err := g.Group(ctx)
	switch {
	case err != nil && len(acl) > 0 && redisstore.Lacks(err):
		return all, nil // the findings already name the cause, and the rest is unknown
	case errors.Is(err, redisstore.ErrFormat):
		return append(all, finding{"format", err.Error(), "no instance can be granted a lease",
			"give the instances and leasectl another --epoch-key or, if no program needs the existing key, delete it"}), nil
	case err != nil:
		return nil, err
	}
	for _, x := range redisstore.Judge(now.Info, f.replicas) {
		all = append(all, finding{x.Name, x.What, x.Consequence, x.Mend})
	}
	all = append(all, g.server(ctx, &now, f)...)
	all = append(all, ofGroup(&now)...)
	st, err := g.status(ctx, nil)
	switch {
	case err != nil && len(acl) > 0 && redisstore.Lacks(err):
		return all, nil
	case err != nil:
		return nil, err
	}
	all = append(all, ofLeases(st)...)
	if f.system != systemPolling {
		return all, nil
	}
	sessions, err := g.sessions(ctx)
	switch {
	case redisstore.Denies(err): // so no instance with this user polls sessions
		return all, nil
	case err != nil:
		return nil, redisstore.Diagnose(err)
	}
	return append(all, ofSessions(st, sessions)...), nil
}

// denied returns what the ACL denies, Redis lacks, or Redis refuses at present.
func (g *group) denied(ctx context.Context) ([]finding, error) {
	err := g.Permitted(ctx, redisstore.Use{Registry: true, Leases: g.leaders})
	const nothing = "an instance with this user does not start, or is granted nothing"
	switch {
	case err == nil:
		return nil, nil
	case errors.Is(err, redisstore.ErrDenied):
		words, line := redisstore.Grant(err)
		return []finding{{"acl", words, nothing, cmp.Or(line, "remove its rename-command from redis.conf, and restart Redis")}}, nil
	case errors.Is(err, redisstore.ErrRefused):
		code, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), redisstore.ErrRefused.Error()+": "), " ")
		if mend, known := refusals[code]; known {
			return []finding{{"refused", err.Error(), "nothing is granted, and held leases end when they cannot be renewed", mend}}, nil
		}
	}
	return nil, redisstore.Diagnose(err)
}

// refusals are Redis' error codes while it refuses writes, with the remedies.
var refusals = map[string]string{
	"OOM":        "CONFIG SET maxmemory <more>; CONFIG SET maxmemory-policy noeviction",
	"NOREPLICAS": "restart the missing replicas; better, run more replicas than min-replicas-to-write requires",
	"MISCONF":    "make room on the disk of Redis, or mend the permissions of its directory; then BGSAVE",
	"READONLY":   "name the master (--redis), or the sentinels that know it (--sentinels)",
}

// clockMax is the largest clock difference without a finding, far more than NTP allows.
const clockMax = time.Second

func (g *group) server(ctx context.Context, now *redisstore.Group, f *flags) (all []finding) {
	if ahead := now.Ahead.Abs(); ahead-now.Within > clockMax {
		all = append(all, finding{"clock", fmt.Sprintf("Redis' clock and this machine's differ by %v (± %v)",
			now.Ahead.Round(time.Millisecond), now.Within.Round(time.Millisecond)),
			"if Redis' clock steps, leases end early; a master whose clock is a TTL behind grants lower fences than before",
			"synchronise the clocks of all servers (chronyc tracking)"})
	}
	set := func(name string) (value string, known bool) {
		ctx, cancel := context.WithTimeout(ctx, f.timeout)
		defer cancel()
		got, err := g.client.ConfigGet(ctx, name).Result()
		value, known = got[name]
		return value, err == nil && known
	}
	info := now.Info.Fields
	save, saves := set("save")
	if saves && save == "" && info["aof_enabled"] == "0" {
		all = append(all, finding{"persistence", "Redis keeps nothing on disk (save \"\" and appendonly no)",
			"a restart loses leases, fences and epoch: no free lease is granted for a quarantine",
			"CONFIG SET appendonly yes, and then CONFIG REWRITE, so that a restart keeps the setting"})
	}
	for _, last := range []string{"rdb_last_bgsave_status", "aof_last_write_status"} {
		if status := info[last]; status != "" && status != "ok" {
			all = append(all, finding{"persistence", last + " is " + now.Info.Fields[last], "Redis may refuse writes (MISCONF), and a restart " +
				"loses what was not written", refusals["MISCONF"]})
		}
	}
	return append(all, ofReplication(now, f, set)...)
}

func ofReplication(now *redisstore.Group, f *flags, set func(string) (string, bool)) (all []finding) {
	replicas, _ := strconv.Atoi(now.Info.Fields["connected_slaves"])
	least, known := set("min-replicas-to-write")
	n, _ := strconv.Atoi(least)
	mayFailOver := replicas > 0 || f.Sentinels != ""
	switch {
	case now.Acks > 0 || f.replicas > 0:
		if n, known := now.Acknowledging(); f.replicas == 0 && known && n < now.Acks {
			all = append(all, finding{"replicas", fmt.Sprintf("%d replicas acknowledge, and %d must acknowledge a write", n,
				now.Acks), "nothing is granted or renewed", "start the others, and look at their logs"})
		}
	case known && n == 0 && mayFailOver:
		all = append(all, finding{"min-replicas", "min-replicas-to-write is 0 and the instances' Replicas too", "an old master that still " +
			"runs renews leases that the new master grants to others: two owners", "CONFIG SET min-replicas-to-write 1, or better Config.Replicas " +
			"(docs/replicas.md)"})
	case !known && mayFailOver:
		all = append(all, finding{"min-replicas", "CONFIG GET is denied: min-replicas-to-write is not known", "if it is 0, an old master " +
			"that lives on renews leases that the new one grants: two owners", "connect as a user with +config|get"})
	}
	if known && n > replicas {
		all = append(all, finding{"min-replicas", fmt.Sprintf("min-replicas-to-write is %d and %d replicas are attached", n, replicas),
			"Redis refuses every write (NOREPLICAS): every lease ends with its trust window", refusals["NOREPLICAS"]})
	}
	return all
}

func ofGroup(now *redisstore.Group) (all []finding) {
	add := func(name, what, consequence, mend string) { all = append(all, finding{name, what, consequence, mend}) }
	switch {
	case now.Epoch == "":
		add("no-epoch", "there is no epoch: no instance has used this Redis yet, or it has lost all its data",
			"the first instance waits for a quarantine before it is granted anything",
			"if it is new: leasectl bootstrap; if it should have data: wait for the quarantine")
		return all
	case now.Over:
		add("epoch-over", "Redis was restarted, failed over, or a replica attached itself, and no instance has sent a request since",
			"the next request begins a quarantine; until then, no instance renews its leases", "check that the instances run and reach this Redis")
	}
	if now.Versions() {
		add("versions", "the epoch has no record of its group, because an instance of an older version began it",
			"instances of two versions end each other's epochs, with a quarantine each time", "run one version (docs/fleets.md)")
	}
	switch {
	case now.Agreed > 0 && now.Left > now.Agreed+clockMax:
		add("quarantine", fmt.Sprintf("the quarantine ends only in %v, but the group has agreed on %v: Redis' clock was set back "+
			"since the quarantine began, or somebody shortened it", now.Left.Round(100*time.Millisecond), now.Agreed),
			"no free lease is granted; held leases stay",
			fmt.Sprintf("if the clock was ahead and is right now: leasectl quarantine %v, which begins it anew; else wait", now.Agreed))
	case now.Left > 0:
		add("quarantine", fmt.Sprintf("the quarantine ends in %v", now.Left.Round(100*time.Millisecond)),
			"no free lease is granted; held leases stay", "wait; the instances' logs say why it began (event epoch)")
	}
	return all
}

// quarantineFar is the multiple of the longest remaining TTL above which a quarantine is too long. An instance that renews has keys with at
// least two thirds of its TTL left.
const quarantineFar = 3

func ofLeases(st *status) (all []finding) {
	if st.Doubtful > 0 {
		all = append(all, finding{"doubtful", fmt.Sprintf("%d of %d leases are doubtful", st.Doubtful, st.leases()),
			"each may have no owner, or a dead one; leasectl status --help explains the doubts",
			"leasectl status --doubtful; if an owner hangs, stop that instance"})
	}
	least, most := extremes(st.Instances)
	if most == nil {
		return all
	}
	if agreed := st.group.Agreed; agreed > 0 && most.longest > agreed {
		all = append(all, finding{"ttl", fmt.Sprintf("keys of %s live for another %v, and the quarantine is %v", plain.Name(most.ID),
			most.longest.Round(time.Millisecond), agreed),
			"after a loss of data, other instances can acquire leases that it still trusts: two owners",
			"leasectl quarantine <the longest TTL of any instance>"})
	}
	// Without a heartbeat, the remaining keys may belong to a stopped fleet and expire soon.
	if agreed := st.group.Agreed; agreed > quarantineFar*most.longest && len(st.alive) > 0 {
		all = append(all, finding{"quarantine-long", fmt.Sprintf("the quarantine is %v, and no key lives for more than %v", agreed,
			most.longest.Round(time.Millisecond)),
			"after each loss of data, nobody can acquire a free lease for that long; the longest TTL of any instance is enough",
			"leasectl quarantine <the longest TTL of any instance>, once all instances run"})
	}
	// An instance that renews every third of its TTL has at least two thirds of it left.
	if 2*least.longest < most.longest {
		all = append(all, finding{"ttl-differs", fmt.Sprintf("the lease keys of %s expire in %v, but those of %s in %v", plain.Name(least.ID),
			least.longest.Round(time.Millisecond), plain.Name(most.ID), most.longest.Round(time.Millisecond)),
			"the two have different TTLs, or the first does not renew its leases, which then expire that much sooner",
			"give all instances the same TTL, or read the log of " + plain.Name(least.ID)})
	}
	return all
}

// extremes returns the instances whose keys live for the shortest and for the longest time; nil if no key lives.
func extremes(instances []instance) (least, most *instance) {
	for i := range instances {
		in := &instances[i]
		if in.longest <= 0 {
			continue
		}
		if least == nil || in.longest < least.longest {
			least = in
		}
		if most == nil || in.longest > most.longest {
			most = in
		}
	}
	return least, most
}

// sessions returns the sessions that lease/poll finds by default, each with its fault, or nil if it is well-formed.
func (g *group) sessions(ctx context.Context) (faults map[string]error, err error) {
	faults = map[string]error{}
	read := func(ids []string) {
		keys := make([]string, len(ids))
		for i, id := range ids {
			keys[i] = poll.DefaultSessionPrefix + id
		}
		texts, errs := redisstore.Strings(ctx, g.client, keys...)
		for i, id := range ids {
			_, fault := poll.DecodeSession(id, []byte(texts[i]))
			switch {
			case redis.HasErrorPrefix(errs[i], "WRONGTYPE"):
				fault = errors.New("its key holds no string")
			case errors.Is(errs[i], redis.Nil): // deleted since
				continue
			case errs[i] != nil:
				err = errs[i]
			case len(texts[i]) > poll.MaxSession:
				fault = fmt.Errorf("its key holds more than %d bytes", poll.MaxSession)
			}
			faults[id] = fault
		}
	}
	read([]string{"probe"}) // shows the ACL, even if there is no session
	return faults, errors.Join(redisstore.Names(ctx, g.client, poll.DefaultSessionPrefix, read), err)
}

// ofSessions compares the sessions with the leases of instances that have a heartbeat. Redis does not show whether instances read
// "session:*". If no lease belongs to such a key and no key is well-formed, ofSessions assumes that they do not.
func ofSessions(st *status, faults map[string]error) (all []finding) {
	var gone, bad []string
	held, known, decoded := 0, false, false // decoded: an owner accepts a session that seems malformed (poll.Config.Decode)
	for _, l := range st.Leases {
		fault, exists := faults[l.Lease]
		switch {
		case !st.alive[l.Owner]: // the owner is a Keeper, or dead
			continue
		case exists:
			known, decoded = true, decoded || fault != nil
		case sessionid.Valid(l.Lease): // any other name may belong to a Keeper's lease
			gone = append(gone, l.Lease)
		}
		held++
	}
	for _, id := range slices.Sorted(maps.Keys(faults)) {
		if faults[id] != nil {
			bad = append(bad, id)
		}
	}
	switch {
	case len(st.alive) == 0:
		return nil
	case len(faults) == 0 && (held == 0 || len(gone) > 0):
		return []finding{{"no-sessions", fmt.Sprintf("there is no key %s*, but there are heartbeats (%d) and leases of their owners (%d)",
			poll.DefaultSessionPrefix, len(st.alive), held), "pollers release these leases, and poll nothing",
			"make the application write its sessions again; if they are stored elsewhere (Config.Sessions, SessionPrefix), ignore this"}}
	case held > 0 && !known && len(bad) == len(faults):
		return nil
	}
	if len(gone) > 0 {
		all = append(all, finding{"sessions-gone", fmt.Sprintf("leases have no session (%d), such as %s", len(gone), gone[0]),
			"their owners release them at the next discoveries", "if the application did not delete the sessions, make it write them again"})
	}
	if len(bad) > 0 && !decoded {
		all = append(all, finding{"sessions-malformed", fmt.Sprintf("sessions are malformed (%d), such as %s%s: %v", len(bad),
			poll.DefaultSessionPrefix, plain.Name(bad[0]), faults[bad[0]]), "no instance polls them",
			`write {"id": <the ID in the key>, "isPaused": <true or false>}, or delete the keys`})
	}
	return all
}
