package sentinel

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/latency"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
)

// BenchmarkReplicatedFailover kills the master, and with it one of two instances that hold fifty leases each. living is how long what
// the other one holds waits to be asserted, dead how much longer than a TTL what the dead one held waits for its next owner. Both count
// from when the replica that has to acknowledge was attached to the new master and the first sentinel had announced that one.
func BenchmarkReplicatedFailover(b *testing.B) {
	b.Run("living", func(b *testing.B) {
		f := &failovers{b: b, r: redistest.StartReplicated(b), ttl: 30 * time.Second} // the default, and so the rarest questions
		latency.Report(b, func(int) []time.Duration {
			return f.round(func(now *seen, killed, known time.Time) []time.Duration {
				return now.after(killed, known, "living", lease.EventRenewed)
			})
		})
	})
	b.Run("dead", func(b *testing.B) {
		f := &failovers{b: b, r: redistest.StartReplicated(b), ttl: 6 * time.Second}
		latency.Report(b, func(int) []time.Duration {
			return f.round(func(now *seen, killed, known time.Time) []time.Duration {
				return now.after(killed, known.Add(f.ttl), "dead", lease.EventAcquired)
			})
		})
	})
}

// failovers are rounds on the same servers.
type failovers struct {
	b   *testing.B
	r   *redistest.Replicated
	ttl time.Duration
}

// round plays one and returns what measure says of it, which is told when a client could know the new master.
func (f *failovers) round(measure func(now *seen, killed, known time.Time) []time.Duration) []time.Duration {
	f.b.Helper()
	old := f.r.Master()
	old.Do("FLUSHALL") // nobody has a lease, and a Redis that is new needs no quarantine
	client := f.r.Client()
	if err := lease.Bootstrap(f.b.Context(), client, lease.Config{TTL: f.ttl}); err != nil {
		f.b.Fatal(err)
	}
	options := f.r.FailoverOptions()
	toAll := newLine(options.SentinelAddrs)
	for _, s := range f.r.Servers {
		toAll.sentinels = append(toAll.sentinels, s.Addr())
	}
	options.Dialer = toAll.dial
	cutOff := redis.NewFailoverClient(options)
	now := &seen{changed: make(chan struct{}, 1)}
	living, dead := f.keeper(client, "living", now), f.keeper(cutOff, "dead", now)
	f.share(living, "living", now)
	f.share(dead, "dead", now)
	for n := range leases {
		f.want(living, "dead-"+name(n))
	}

	attached := f.attachment(old)
	toAll.cut(true)
	killed := time.Now()
	old.Kill()
	f.r.AwaitSwitch(old)
	known := later(time.Now(), <-attached)
	var took []time.Duration
	now.await(f.b, func() bool {
		took = measure(now, killed, known)
		return len(took) == leases
	})

	toAll.cut(false)
	for _, k := range []*lease.Keeper{living, dead} {
		_ = k.Stop() // the dead one may have leases to give back that are another's by now
	}
	_ = cutOff.Close()
	f.r.Rejoin(old)
	f.r.AwaitSettled()
	return took
}

func (f *failovers) keeper(client redis.UniversalClient, id string, now *seen) *lease.Keeper {
	f.b.Helper()
	k, err := lease.NewKeeper(client, lease.Config{
		InstanceID: id, TTL: f.ttl, Replicas: 2, Logger: zap.NewNop(), Notify: func(e lease.Event) {
			now.note(id, e)
			if e.Kind == lease.EventYield {
				e.Hold.Drop()
			}
		},
	})
	if err == nil {
		err = k.Start(f.b.Context())
	}
	if err != nil {
		f.b.Fatal(err)
	}
	return k
}

func (f *failovers) want(k *lease.Keeper, name string) {
	f.b.Helper()
	if err := k.Want(name); err != nil {
		f.b.Fatal(err)
	}
}

// share waits until an instance has its fifty.
func (f *failovers) share(k *lease.Keeper, id string, now *seen) {
	f.b.Helper()
	for n := range leases {
		f.want(k, id+"-"+name(n))
	}
	now.await(f.b, func() bool { return len(now.after(time.Time{}, time.Time{}, id, lease.EventAcquired)) == leases })
}

// attachment tells when a replica was first attached to a master that is not old: when it was asked for the last time and was not.
func (f *failovers) attachment(old *redistest.Server) <-chan time.Time {
	at := make(chan time.Time, 1)
	var clients []*redis.Client
	for _, s := range f.r.Servers {
		if s != old {
			clients = append(clients, s.Client())
		}
	}
	ctx := f.b.Context()
	go func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for before := time.Now(); ctx.Err() == nil; <-tick.C {
			asked := time.Now()
			for _, c := range clients {
				text, _ := c.Info(ctx, "replication").Result()
				if strings.Contains(text, "role:master") && strings.Contains(text, "state=online") {
					at <- before
					return
				}
			}
			before = asked
		}
	}()
	return at
}

// seen is what the instances told, and when.
type seen struct {
	mu      sync.Mutex
	events  []told
	changed chan struct{}
}

type told struct {
	by   string
	name string
	kind lease.EventKind
	at   time.Time
}

func (s *seen) note(by string, e lease.Event) {
	s.mu.Lock()
	s.events = append(s.events, told{by, e.Name, e.Kind, time.Now()})
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// after is how long after due each of the fifty leases of an instance had its first event of a kind since a time.
func (s *seen) after(since, due time.Time, of string, kind lease.EventKind) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var took []time.Duration
	had := map[string]bool{}
	for _, e := range s.events {
		if strings.HasPrefix(e.name, of+"-") && e.kind == kind && !e.at.Before(since) && !had[e.name] {
			had[e.name] = true
			took = append(took, max(0, e.at.Sub(due)))
		}
	}
	return slices.Clip(took)
}

func (s *seen) await(b *testing.B, so func() bool) {
	b.Helper()
	timeout := time.NewTimer(2 * time.Minute)
	defer timeout.Stop()
	for !so() {
		select {
		case <-s.changed:
		case <-timeout.C:
			b.Fatal("not within two minutes")
		}
	}
}
