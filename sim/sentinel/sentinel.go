package sentinel

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
)

// Kind is what happens to the master.
type Kind string

// The kinds.
const (
	Kill     Kind = "the master is killed"
	Stop     Kind = "the master is stopped for 2.5 s and goes on"
	Failover Kind = "a failover by hand"
	Undone   Kind = "a switch that is undone at once"
	// Cut needs Replicas: without, the owners that stay with the old master go on.
	Cut Kind = "the master, and one instance, are cut off from replicas and sentinels for 8 s"
	// Move is of a cluster.
	Move Kind = "the leases' slot moves to another shard"
)

// Kinds are those that need nothing.
func Kinds() []Kind { return []Kind{Kill, Stop, Failover, Undone} }

// servers are those of Redis: a redistest.Replicated, or a redistest.Clustered.
type servers interface {
	Master() *redistest.Server
	Failover() *redistest.Server
	AwaitSwitch(old *redistest.Server) *redistest.Server
	AwaitSettled()
	Rejoin(s *redistest.Server)
}

const (
	instances = 3
	leases    = 50
	ttl       = 2 * time.Second
	stopped   = 2500 * time.Millisecond
	cut       = 8 * time.Second
)

// Round is the verdict on one round: one thing that happened, and all that followed until the servers were one master with
// two replicas again and every lease had an owner.
type Round struct {
	Kind    Kind
	Doubled int           // leases that had two owners at once
	Longest time.Duration // for how long the worst of them had
	Idle    time.Duration // for how long a lease had no owner, at most
	Terms   int           // leases that were acquired anew
	Took    time.Duration
}

// String is the round as a line of a log.
func (r Round) String() string {
	return fmt.Sprintf("%s: %d leases with two owners, for %v at most; none for %v at most; %d acquired anew; took %v", r.Kind,
		r.Doubled, r.Longest.Round(time.Millisecond), r.Idle.Round(time.Millisecond), r.Terms, r.Took.Round(time.Millisecond))
}

// Fleet is three instances that share fifty leases with a TTL of 2 s.
type Fleet struct {
	t        testing.TB
	redis    servers
	keepers  []*lease.Keeper
	restarts int
	record   *record
	common   lease.Config // what all instances have in common
	client   func() redis.UniversalClient
	sentinel *redistest.Replicated // nil: a cluster
	cluster  *redistest.Clustered  // nil: behind Sentinel
	first    *line                 // of the first instance behind Sentinel
}

// Start starts servers behind Sentinel and instances, and waits until every lease has an owner. replicas is the instances'
// Config.Replicas; the options are the servers'.
func Start(t testing.TB, replicas int, opts ...redistest.Option) *Fleet {
	t.Helper()
	r := redistest.StartReplicated(t, opts...)
	f := &Fleet{t: t, redis: r, sentinel: r, record: newRecord(), common: lease.Config{Replicas: replicas}}
	f.client = f.failoverClient
	return f.start(r.Client())
}

// StartClustered does so on a cluster.
func StartClustered(t testing.TB, replicas int, opts ...redistest.Option) *Fleet {
	t.Helper()
	c := redistest.StartClustered(t, "{leases}", opts...)
	f := &Fleet{t: t, redis: c, cluster: c, client: c.Client, record: newRecord(), common: lease.Config{
		Replicas: replicas, LeasePrefix: "{leases}:lease:", NodePrefix: "{leases}:node:", EpochKey: "{leases}:epoch",
		Channel: "leases:notify",
	}}
	return f.start(c.Client())
}

func (f *Fleet) start(client redis.UniversalClient) *Fleet {
	f.t.Helper()
	if err := lease.Bootstrap(f.t.Context(), client, f.config("")); err != nil {
		f.t.Fatal(err)
	}
	for i := range instances {
		f.keepers = append(f.keepers, f.join(fmt.Sprintf("instance-%d", i+1)))
	}
	for i, k := range f.keepers { // so that each has a share, which it keeps
		for n := i; n < leases; n += instances {
			f.want(k, name(n))
		}
	}
	f.awaitOwned()
	for _, k := range f.keepers {
		for n := range leases {
			f.want(k, name(n))
		}
	}
	return f
}

func name(n int) string { return fmt.Sprintf("lease-%02d", n) }

func (f *Fleet) config(id string) lease.Config {
	cfg := f.common
	cfg.InstanceID, cfg.TTL = id, ttl
	return cfg
}

// failoverClient is that of an instance. The first one's way to the sentinels can be cut.
func (f *Fleet) failoverClient() redis.UniversalClient {
	if f.first != nil {
		return f.sentinel.Client()
	}
	o := f.sentinel.FailoverOptions()
	f.first = newLine(o.SentinelAddrs)
	o.Dialer = f.first.dial
	c := redis.NewFailoverClient(o)
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (f *Fleet) join(id string) *lease.Keeper {
	f.t.Helper()
	cfg := f.config(id)
	var k *lease.Keeper
	cfg.Notify = func(e lease.Event) {
		f.record.note(id, e)
		switch e.Kind {
		case lease.EventLost, lease.EventReleased:
			_ = k.Want(e.Name) // it is wanted again; the name is one that was accepted before
		case lease.EventYield:
			e.Hold.Drop()
		default:
		}
	}
	k, err := lease.NewKeeper(f.client(), cfg)
	if err == nil {
		err = k.Start(context.Background())
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = k.Stop() })
	return k
}

// restart starts the instances anew, one by one, with another Config.Replicas.
func (f *Fleet) restart(replicas int) {
	f.t.Helper()
	f.common.Replicas = replicas
	for i, k := range f.keepers {
		if err := k.Stop(); err != nil {
			f.t.Fatal(err)
		}
		f.restarts++
		f.keepers[i] = f.join(fmt.Sprintf("instance-%d-%d", i+1, f.restarts))
		for n := range leases {
			f.want(f.keepers[i], name(n))
		}
		f.awaitOwned()
	}
}

func (f *Fleet) want(k *lease.Keeper, name string) {
	f.t.Helper()
	if err := k.Want(name); err != nil {
		f.t.Fatal(err)
	}
}

// awaitOwned waits until every lease has an owner, and the present master has it as the owner's.
func (f *Fleet) awaitOwned() {
	f.t.Helper()
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	for !f.owned() {
		select {
		case <-f.record.changed:
		case <-timeout.C:
			f.t.Fatalf("a minute later only %d of %d leases have an owner, or the master has another one for them",
				len(f.record.owners(time.Now())), leases)
		}
	}
}

func (f *Fleet) owned() bool {
	owners := f.record.owners(time.Now())
	if len(owners) < leases {
		return false
	}
	keys := []any{"MGET"}
	for n := range leases {
		keys = append(keys, cmp.Or(f.common.LeasePrefix, redisstore.LeasePrefixDefault)+name(n))
	}
	held, _ := f.redis.Master().Do(keys...).([]any)
	for n, owner := range held {
		if owner != owners[name(n)] {
			return false
		}
	}
	return len(held) == leases
}

// Play plays a round of each kind and judges it.
func (f *Fleet) Play(kinds ...Kind) []Round {
	f.t.Helper()
	var rounds []Round
	for _, kind := range kinds {
		r := f.play(kind)
		f.t.Log(r)
		rounds = append(rounds, r)
	}
	return rounds
}

func (f *Fleet) play(kind Kind) Round {
	f.t.Helper()
	from, terms := time.Now(), f.record.count()
	f.strike(kind)
	f.redis.AwaitSettled()
	wait(ttl) // what is believed by now has been confirmed, or has ended
	f.awaitOwned()
	to := time.Now()
	r := Round{Kind: kind, Terms: f.record.count() - terms, Took: to.Sub(from)}
	r.Doubled, r.Longest, r.Idle = f.record.since(from, to)
	return r
}

// strike does what the kind says and returns when another server is the master.
func (f *Fleet) strike(kind Kind) {
	f.t.Helper()
	master := f.redis.Master()
	switch kind {
	case Kill:
		master.Kill()
		f.redis.AwaitSwitch(master)
		f.awaitOwned()
		f.redis.Rejoin(master)
	case Stop:
		master.Freeze()
		wait(stopped)
		if f.cluster != nil { // who votes there is slower
			f.redis.AwaitSwitch(master)
		}
		master.Thaw()
		f.redis.AwaitSwitch(master)
	case Failover:
		f.redis.Failover()
	case Cut:
		f.first.cut(true)
		f.sentinel.Isolate(master)
		f.redis.AwaitSwitch(master)
		wait(cut)
		f.sentinel.Reunite(master)
		f.first.cut(false)
	case Move:
		f.cluster.Move()
	case Undone:
		f.redis.Failover()
		f.redis.Failover()
	default:
		f.t.Fatalf("no such kind of round: %q; there are %q", kind, Kinds())
	}
}

func wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
