package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/leasetest"
)

// Leases are deleted, even those of unregistered owners, until another worker signs on or a dead one beats. From then on, all leases stay.
func TestLeasesOfWhoHasBeatenAreNotDeleted(t *testing.T) { // I1, I5
	f := setup(t)
	beat := func(worker string) {
		t.Helper()
		_, _, _, err := f.bus(worker).Beat(t.Context(), "{}")
		f.must(err)
	}
	for _, later := range []string{"", "dead", "new"} {
		f.must(f.client.Del(t.Context(), "intent:workers").Err())
		beat("me")
		f.must(f.client.ZAdd(t.Context(), "intent:workers", redis.Z{Member: "dead", Score: 1_700_000_000_000.5},
			redis.Z{Member: "left", Score: 0}).Err())
		f.must(f.client.MSet(t.Context(), "intent:lease:resource:a", "dead", "intent:lease:slot:1", "unknown").Err())
		all, err := as(f.store, "").Workers(t.Context())
		f.must(err)
		others := slices.DeleteFunc(all, func(w intentbus.Worker) bool { return w.Instance == "me" })
		want := int64(0)
		if later != "" {
			beat(later)
			want = 2
		}
		beat("me")
		none := f.open(Options{Leases: lease.Config{LeasePrefix: "none:"}})
		if _, beats, err := as(none, "me").DeleteAllLeases(t.Context(), others); beats != later || err != nil {
			t.Errorf("%q beats, and there is no lease: %q in the way, %v", later, beats, err)
		}
		n, beats, err := as(f.store, "me").DeleteAllLeases(t.Context(), others)
		if left := f.client.Exists(t.Context(), "intent:lease:resource:a", "intent:lease:slot:1").Val(); err != nil || beats != later || left != want ||
			int64(n) != 2-want {
			t.Errorf("%q beats: %d deleted, %q in the way, %v; %d leases are left, want %d", later, n, beats, err, left, want)
		}
	}
}

// A search for leases ends when its caller has had enough: another worker beats, or handling a page has failed.
func TestLeasesAreNotReadOn(t *testing.T) {
	f := setup(t)
	const pages = 10
	var leases []any
	for i := range 1000 * pages {
		leases = append(leases, "intent:lease:resource:"+strconv.Itoa(i), "dead")
	}
	f.must(f.client.MSet(t.Context(), leases...).Err())
	f.bus("new")
	full := errors.New("full")
	for name, read := range map[string]func() error{
		"failed": func() error {
			if err := as(f.store, "").Leases(t.Context(), func([]string) error { return full }); !errors.Is(err, full) {
				return fmt.Errorf("%w, want that it is full", err)
			}
			return nil
		},
		"beats": func() error {
			n, beats, err := as(f.store, "me").DeleteAllLeases(t.Context(), nil)
			if n != 0 || beats != "new" {
				t.Errorf("%d deleted, %q in the way", n, beats)
			}
			return err
		},
	} {
		f.must(f.client.ConfigResetStat(t.Context()).Err())
		f.must(read())
		var scans int
		_, stats, _ := strings.Cut(f.client.Info(t.Context(), "commandstats").Val(), "cmdstat_scan:")
		if _, err := fmt.Sscanf(stats, "calls=%d", &scans); err != nil || scans != 1 {
			t.Errorf("%s: %d pages are read, %v; want 1", name, scans, err)
		}
	}
}

// endless is a hook that imitates a Redis whose scans find nothing and do not end. Each answer takes a second.
type endless struct{ asks }

// ProcessHook answers scans.
func (endless) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		scan, ok := cmd.(*redis.ScanCmd)
		if !ok {
			return next(ctx, cmd)
		}
		scan.SetVal(nil, 17)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
			return nil
		}
	}
}

// A search that does not end has an error of its own, unlike a silent Redis or an ended context. A worker that beats meanwhile is reported
// even if no lease was found.
func TestReadingOfLeasesThatDoesNotEnd(t *testing.T) { // I1
	synctest.Test(t, func(t *testing.T) {
		r := leasetest.New(t)
		others, err := New(r.Client(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer others.Close()
		bus, err := others.open("other")
		if err != nil {
			t.Fatal(err)
		}
		defer bus.Close()
		if _, _, _, err := bus.Beat(t.Context(), "{}"); err != nil {
			t.Fatal(err)
		}
		for what, tt := range map[string]struct {
			within time.Duration
			want   error
			beats  string
		}{
			"too slow":            {time.Hour, intentbus.ErrUnfinished, "other"},
			"too slow for caller": {10 * time.Second, ErrUnavailable, ""},
		} {
			st, err := New(r.Client(), Options{Leases: lease.Config{Hooks: []redis.Hook{&endless{}}}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), tt.within)
			began := time.Now()
			n, beats, err := as(st, "me").DeleteAllLeases(ctx, nil)
			if took, most := time.Since(began), 3*time.Minute; !errors.Is(err, tt.want) || beats != tt.beats || n != 0 || took > most {
				t.Errorf("%s: %d deleted, %q in the way, %v after %v; want %q and %v", what, n, beats, err, took, tt.beats, tt.want)
			}
			cancel()
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// If the lease prefix has a hash tag, as on a cluster, fence keys begin like lease keys. They stay when leases are deleted.
func TestFencesAreNoLeases(t *testing.T) { // G3
	f := setup(t)
	tagged := f.open(Options{KeyPrefix: "{x}:"})
	keys, err := redisstore.LeaseKeys(tagged.opt.leaseOptions(), tagged.names.ResourceLease("a"))
	f.must(err)
	f.must(f.client.MSet(t.Context(), keys[1], "dead", keys[2], "7").Err())
	if n, _, err := as(tagged, "w").DeleteAllLeases(t.Context(), nil); n != 1 || err != nil {
		t.Errorf("%d deleted, %v; want the lease", n, err)
	}
	if fence := f.client.Get(t.Context(), keys[2]).Val(); fence != "7" {
		t.Errorf("the fence is %q, want 7", fence)
	}
	// No service can have such a name either.
	f.must(f.client.Del(t.Context(), keys[2]).Err())
	for phase, put := range map[int]func(context.Context, string, intent.Request, time.Duration) (string, bool, error){
		1: tagged.PutLeased, 2: tagged.Put,
	} {
		s := session("a:fence")
		if _, _, err := put(t.Context(), s.ID, s.Request, time.Minute); !errors.Is(err, intent.ErrInvalid) {
			t.Errorf("phase %d: a service with the name of a fence: %v, want ErrInvalid", phase, err)
		}
	}
	if keys := f.client.Keys(t.Context(), "{x}:*").Val(); len(keys) != 0 {
		t.Errorf("%q were written", keys)
	}
}

// Braces in a service's name do not change the slot, because the prefix has the first braces.
func TestServicesOfAClusterMayHaveBraces(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Cluster()).ClusterClient()
	st, err := New(client, Options{KeyPrefix: "{x}:"})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := admin.Bootstrap(t.Context(), client, st.Options()); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"a{b", "a}b", "{", "{}", "a{b}c", "}{"} {
		s := session(ref)
		id, exists, err := st.PutLeased(t.Context(), s.ID, s.Request, time.Minute)
		if id != s.ID || exists || err != nil {
			t.Errorf("%q: %q %v %v", ref, id, exists, err)
		}
		if holder := client.Get(t.Context(), "{x}:lease:resource:"+ref).Val(); holder != "session:"+s.ID {
			t.Errorf("%q: its lease is of %q", ref, holder)
		}
	}
}

// The same on a cluster, where all keys are in one slot.
func TestLeasesOfAClusterAreDeleted(t *testing.T) { // I1
	t.Parallel()
	client := redistest.Start(t, redistest.Cluster()).ClusterClient()
	st, err := New(client, Options{KeyPrefix: "{x}:"})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	bus, err := st.open("new")
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	for _, want := range []int{1, 0} {
		if err := client.Set(t.Context(), "{x}:lease:resource:a", "unknown", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if n, beats, err := as(st, "me").DeleteAllLeases(t.Context(), nil); n != want || (beats == "new") != (want == 0) || err != nil {
			t.Errorf("%d deleted, %q in the way, %v; want %d", n, beats, err, want)
		}
		if _, _, _, err := bus.Beat(t.Context(), "{}"); err != nil {
			t.Fatal(err)
		}
	}
}

func as(s *Store, worker string) *bus { return &bus{Store: s, worker: worker} }
