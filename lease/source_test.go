package lease

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// entries returns the log entries of an event.
func (g *rig) entries(event string) []observer.LoggedEntry {
	g.shell.log.Flush(g.ctx)
	return g.log.FilterField(zap.String("event", event)).All()
}

// reading is what Config.Sessions returns, as a test sets it.
type reading struct {
	ids []string
	err error
}

func reads(t *testing.T, change func(*ManagerConfig)) (*rig, *atomic.Pointer[reading]) {
	t.Helper()
	var found atomic.Pointer[reading]
	found.Store(&reading{ids: []string{session}})
	g := newRig(t, newFakeRedis(), "a", false, func(c *ManagerConfig) {
		c.DiscoveryInterval = time.Second
		c.Sessions = func(context.Context) ([]string, error) { r := found.Load(); return r.ids, r.err }
		if change != nil {
			change(c)
		}
	})
	pass(5 * time.Second)
	return g, &found
}

// If all sessions disappear, the log says so once, because a fleet without sessions looks idle.
func TestSessionsThatAreGoneAreWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, found := reads(t, nil)
		if h := g.diagnosis.health(); h.Sessions != 1 || len(g.entries("sessionsGone")) != 0 {
			t.Fatalf("one session: %v, %+v", h.Sessions, g.entries("sessionsGone"))
		}
		for range 2 {
			found.Store(&reading{err: &inner.Skipped{Count: 2}})
			pass(5 * time.Second)
		}
		gone := g.entries("sessionsGone")
		if len(gone) != 1 || gone[0].Level != zapcore.WarnLevel || gone[0].ContextMap()["sessions"] != int64(1) ||
			gone[0].ContextMap()["skipped"] != int64(2) || gone[0].ContextMap()["instance"] != "a" {
			t.Errorf("%+v", gone)
		}
		if h := g.diagnosis.health(); h.Sessions != 0 || h.Skipped != 2 {
			t.Errorf("%d sessions, %d skipped", h.Sessions, h.Skipped)
		}
	})
}

// If sessions cannot be read any more, the last known ones stay shared, and the log and Health say so meanwhile.
func TestSessionsThatCannotBeReadAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, found := reads(t, nil)
		found.Store(&reading{err: errors.New("who knows")})
		began := time.Now()
		pass(3*time.Minute - time.Second)
		failed := g.entries("sessionsFailed")
		if len(failed) != 3 {
			t.Errorf("%d entries in three minutes: %+v", len(failed), failed)
		}
		if since, _ := failed[0].ContextMap()["since"].(string); since != failed[0].Time.Format(time.RFC3339Nano) {
			t.Errorf("it began at %q by the log, whatever its encoder does with times; want %v", since, failed[0].Time)
		}
		h := g.diagnosis.health()
		if !h.OK() || !strings.Contains(h.Reason, "the sessions cannot be read since ") || !strings.Contains(h.Reason, "who knows") ||
			h.Sessions != 1 || h.Unread.Sub(began) > 2*time.Second || h.Unread.Before(began) {
			t.Errorf("%v, unread since %v after it began", h, h.Unread.Sub(began))
		}
		found.Store(&reading{ids: []string{session}})
		pass(5 * time.Second)
		if h := g.diagnosis.health(); !h.Unread.IsZero() || strings.Contains(h.Reason, "read") || len(g.entries("sessionsRead")) != 1 {
			t.Errorf("read again: %v, %+v", h, g.entries("sessionsRead"))
		}
	})
}

// An instance whose discoveries fail, while all other requests succeed, finds no free lease. The second failure in a row is reported.
func TestLooksThatFailForGood(t *testing.T) {
	for words, want := range map[string]struct {
		failure core.Failure
		err     error
		state   string
	}{
		"NOPERM no permissions": {core.FailRefused, redisstore.Cause(redisError("NOPERM no permissions")), HealthRefused},
		"i/o timeout":           {core.FailUnknown, errors.New("i/o timeout"), HealthSilent},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, _ := reads(t, nil)
			g.fake.looked.Store(&core.Answer{Failure: want.failure, Err: want.err, Text: words})
			failing := false
			for i := range 60 {
				pass(time.Second + 100*time.Millisecond) // other requests are answered
				h := g.diagnosis.health()
				if failing = failing || !h.OK(); !failing {
					continue
				}
				if h.State != want.state || !errors.Is(h.Err, want.err) || !strings.Contains(h.Reason, words) {
					t.Errorf("%d: %v", i, h)
				}
				if early := g.cfg.DiscoveryInterval; want.state == HealthSilent && time.Duration(i+1)*time.Second < early {
					t.Errorf("one failure within %v is an accident: %v", early, h)
				}
			}
			if !failing {
				t.Error("discovery never succeeds, and Health is ok")
			}
			if !g.table.get(session).Valid() {
				t.Error("its lease is not renewed")
			}
			g.fake.looked.Store(nil)
			pass(g.cfg.TTL)
			if h := g.diagnosis.health(); !h.OK() {
				t.Errorf("a look was answered: %v", h)
			}
		})
	}
}

// A process that was paused says for how long, once per TTL.
func TestStallsAreWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, newFakeRedis(), "a", true, nil)
		pass(time.Minute)
		if n := len(g.entries("stalled")); n != 0 {
			t.Errorf("%d entries in peace", n)
		}
		for range 2 {
			g.post(func() { g.diagnosis.stalled(g.now().Mono - core.Time(25*time.Second)) })
			pass(time.Second)
		}
		stalled := g.entries("stalled")
		if len(stalled) != 1 || stalled[0].Level != zapcore.WarnLevel || stalled[0].ContextMap()["wait"] != int64(25_000) {
			t.Errorf("%+v", stalled)
		}
	})
}

// Config.Sessions may take longer than a discovery: a later discovery uses what it returns, at the start too. Calls never overlap.
func TestSessionsThatAreReadSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		g, _ := reads(t, func(c *ManagerConfig) {
			c.Sessions = func(ctx context.Context) ([]string, error) {
				if calls.Add(1) > 1 {
					t.Error("two calls at once")
				}
				defer calls.Add(-1)
				select {
				case <-time.After(c.DiscoveryInterval * 5 / 2):
					return []string{session}, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
		})
		if !g.table.get(session).Valid() {
			t.Error("its lease is not acquired")
		}
	})
}
