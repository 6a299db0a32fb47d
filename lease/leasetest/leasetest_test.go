package leasetest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/leasetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const job = "lease:name:job"

// pass lets d of the bubble's time go by, and everything that happens in it.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// told records how terms ended, as callbacks report it.
type told struct {
	mu   sync.Mutex
	ends []string
}

func (l *told) hear(e lease.Event) {
	if e.Kind == lease.EventLost {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ends = append(l.ends, strings.TrimSpace(e.Name+" "+e.Cause+" "+e.Owner))
	}
}

func (l *told) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.ends, ", ")
}

func keeper(t *testing.T, r *leasetest.Redis, id string, heard func(lease.Event)) *lease.Keeper {
	t.Helper()
	k, err := lease.NewKeeper(r.Client(), lease.Config{InstanceID: id, Notify: heard})
	if err == nil {
		err = k.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Stop() })
	return k
}

func acquired(t *testing.T, k *lease.Keeper) *lease.Lease {
	t.Helper()
	h, err := k.TryAcquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// lost checks that a term ends now, and that its context says why.
func lost(t *testing.T, h *lease.Lease) {
	t.Helper()
	if h.Valid() || !errors.Is(context.Cause(h.Context()), lease.ErrLost) {
		t.Errorf("the term is over: %t, its context: %v", !h.Valid(), context.Cause(h.Context()))
	}
}

func TestKeeperLoses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, ends := leasetest.New(t), &told{}
		k := keeper(t, r, "a", ends.hear)
		h, began := acquired(t, k), time.Now()
		r.Lose(job)
		lost(t, h)
		if ends.all() != "job gone" || !time.Now().Equal(began) {
			t.Errorf("told %q after %v, want job gone at once", ends.all(), time.Since(began))
		}
		if again := acquired(t, k); again.Fence() <= h.Fence() {
			t.Errorf("fence %d after %d", again.Fence(), h.Fence())
		}
	})
}

func TestKeeperIsTakenFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, ends := leasetest.New(t), &told{}
		k := keeper(t, r, "a", ends.hear)
		h, began := acquired(t, k), time.Now()
		r.Take(job, "other", time.Minute)
		lost(t, h)
		if ends.all() != "job taken other" || !time.Now().Equal(began) {
			t.Errorf("told %q after %v, want job taken other at once", ends.all(), time.Since(began))
		}
		var held *lease.OpError
		if _, err := k.TryAcquire(t.Context(), "job"); !errors.As(err, &held) || held.Owner != "other" || time.Until(held.Until).Round(time.Second) != time.Minute {
			t.Errorf("TryAcquire = %v, want it held by other for a minute", err)
		}
		again, err := k.Acquire(t.Context(), "job")
		if took := time.Since(began).Round(time.Second); err != nil || took != time.Minute || again.Fence() <= h.Fence() {
			t.Errorf("Acquire = %v after %v, want it when the minute is over, under a higher fence", err, took)
		}
	})
}

func TestKeeperWhenRedisForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, ends := leasetest.New(t), &told{}
		a, b := keeper(t, r, "a", ends.hear), keeper(t, r, "b", nil)
		h := acquired(t, a)
		r.Forget()
		pass(time.Second)
		if _, err := b.TryAcquire(t.Context(), "job"); !errors.Is(err, lease.ErrQuarantine) {
			t.Errorf("TryAcquire = %v, want ErrQuarantine", err)
		}
		pass(lease.DefaultTTL)
		if _, err := b.TryAcquire(t.Context(), "job"); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("TryAcquire after the quarantine = %v, want ErrHeld", err)
		}
		if !h.Valid() || ends.all() != "" {
			t.Errorf("the owner has it: %t; told %q, want that it has asserted it", h.Valid(), ends.all())
		}
	})
}

// An owner that does not know of a loss of data does not assert a lease that another instance has taken.
func TestTakenWhileRedisForgets(t *testing.T) {
	for name, take := range map[string]func(*leasetest.Redis){
		"taken": func(r *leasetest.Redis) { r.Take(job, "other", time.Minute) },
		"lost":  func(r *leasetest.Redis) { r.Lose(job) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := leasetest.New(t)
				h := acquired(t, keeper(t, r, "a", nil))
				r.Forget()
				take(r)
				lost(t, h)
				pass(lease.DefaultTTL / 2)
				if owner, _ := r.Client().Get(t.Context(), job).Result(); owner == "a" {
					t.Error("its owner has asserted it again")
				}
			})
		})
	}
}

// fatal records the message with which a test ends.
type fatal struct {
	testing.TB
	said string
}

func (f *fatal) Helper() {}
func (f *fatal) Fatal(args ...any) {
	f.said = fmt.Sprint(args...)
	runtime.Goexit()
}
func (f *fatal) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

// ends returns the message with which f ends its test.
func ends(t *testing.T, f func(testing.TB)) string {
	tb, done := &fatal{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		f(tb)
	}()
	<-done
	return tb.said
}

func TestSaysWhatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		does func(*leasetest.Redis)
		says string
	}{
		"nobody has it": {func(r *leasetest.Redis) { r.Lose("job") }, `nobody has this lease; there are the keys ["lease:epoch:group" "lease:name:job"]`},
		"for no time":   {func(r *leasetest.Redis) { r.Take(job, "other", 0) }, "1ms at least"},
		"by nobody":     {func(r *leasetest.Redis) { r.Take(job, "", time.Minute) }, "an owner has an ID"},
		"no lease":      {func(r *leasetest.Redis) { r.Take("lease:epoch:group", "other", time.Minute) }, "WRONGTYPE"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				said := ends(t, func(tb testing.TB) {
					r := leasetest.New(tb)
					if err := r.Client().HSet(t.Context(), "lease:epoch:group", "a", "b").Err(); err != nil {
						t.Error(err)
					}
					r.Take(job, "other", time.Minute)
					c.does(r)
				})
				if !strings.Contains(said, c.says) {
					t.Errorf("it says %q, want %q", said, c.says)
				}
			})
		})
	}
	if said := ends(t, func(tb testing.TB) { leasetest.New(tb) }); !strings.Contains(said, "synctest.Test") {
		t.Errorf("outside of a bubble: %q", said)
	}
}

// An owner in a callback cannot learn that it has lost its lease. The test fails with that message, not with a loss.
func TestSaysThatTheOwnerIsCalledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := ends(t, func(tb testing.TB) {
			r := leasetest.New(tb)
			inCallback, leave := make(chan struct{}), make(chan struct{})
			defer close(leave)
			k := keeper(t, r, "a", func(e lease.Event) {
				if e.Kind == lease.EventAcquired {
					close(inCallback)
					<-leave
				}
			})
			go func() { _, _ = k.TryAcquire(t.Context(), "job") }()
			<-inCallback
			r.Lose(job)
		})
		if !strings.Contains(said, "called back") {
			t.Errorf("it says %q", said)
		}
		synctest.Wait()
	})
}

// A fleet gets a longer TTL: the quarantine is raised and waited for, and each instance is restarted with the longer TTL. Every session
// has an owner again at once. After one old TTL, the quarantine still lasts, and the leases of a stopped instance wait for its end.
func TestFleetRaisesItsTTL(t *testing.T) { // G9, G13
	const before, after, sessions = 30 * time.Second, 60 * time.Second, 12
	for wait, want := range map[time.Duration]int{before: sessions, max(before, after): 0} {
		synctest.Test(t, func(t *testing.T) {
			r := leasetest.New(t)
			fleet := map[string]*lease.Manager{"a": manager(t, r, "a", before), "b": manager(t, r, "b", before), "c": manager(t, r, "c", before)}
			owned := func() (n int) {
				for _, m := range fleet {
					n += len(m.OwnedSessions())
				}
				return n
			}
			pass(2 * before)
			if _, err := admin.SetQuarantine(t.Context(), r.Client(), lease.ManagerConfig{}, after); err != nil || owned() != sessions {
				t.Fatalf("SetQuarantine = %v; %d sessions have an owner", err, owned())
			}
			pass(wait - time.Second)
			for id, m := range fleet {
				_, err := m.TryAcquire(t.Context(), "another")
				if text := fmt.Sprint(m.Health(), err); strings.Count(text, "an operator changed the group's quarantine") != 2 {
					t.Errorf("%s does not name the operator twice: %s", id, text)
				}
			}
			pass(time.Second)
			unowned := 0
			for id, m := range fleet {
				_ = m.Stop()
				fleet[id] = manager(t, r, id, after)
				pass(time.Second)
				unowned = max(unowned, sessions-owned())
			}
			if unowned != want {
				t.Errorf("after %v: %d sessions have no owner a second after a restart, want %d", wait, unowned, want)
			}
		})
	}
}

// manager starts an instance that shares twelve sessions.
func manager(t *testing.T, r *leasetest.Redis, id string, ttl time.Duration) *lease.Manager {
	t.Helper()
	m, err := lease.NewManager(r.Client(), lease.ManagerConfig{Config: lease.Config{InstanceID: id, TTL: ttl, Logger: zap.NewNop()}, NamedSessions: true,
		Sessions: func(context.Context) ([]string, error) { return strings.Fields("a b c d e f g h i j k l"), nil }})
	if err == nil {
		err = m.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Stop() })
	return m
}
