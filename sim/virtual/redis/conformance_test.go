package redis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redisstore/storetest"
)

// TestConformance holds the model, with the scripts' twins and with the scripts themselves, to the suite that the store
// on a real Redis passes.
func TestConformance(t *testing.T) {
	for name, lua := range map[string]bool{"twins": false, "scripts": true} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T, quarantine time.Duration) storetest.Harness {
				m := &model{T: t}
				m.redis = New(Config{
					Options: redisstore.Options{Quarantine: quarantine}, Wrote: deaf, Lua: lua,
					Publish: func(n core.Notice) { m.heard = append(m.heard, n) },
				}, nil)
				m.redis.Clock.Wall = epochNs
				return m
			})
		})
	}
}

// model is the store and its Redis: the scripts are the model's, what surrounds them is what the suite wants of a client.
type model struct {
	*testing.T
	redis   *Server
	t       int64
	loading bool
	heard   []core.Notice
}

// spoil puts a value of another type in the place of a lease or its fence.
func (r *Server) spoil(k Key) {
	if r.get(k, 0).there {
		r.del(k)
	}
	if l := &r.leases[k.i]; k.kind == keyLease {
		l.foreign, l.expire = true, Forever
	} else {
		l.fenceForeign, l.fenceExpire = true, Forever
	}
}

// deaf hears no changes.
func deaf(Change) {}

func (m *model) Store() storetest.Store { return m }

func (m *model) Do(ctx context.Context, op *core.Op) core.Answer {
	a := core.Answer{Seq: op.Seq, Results: make([]core.Result, len(op.Items))}
	a.Failure, a.Text = m.refusal(ctx, op)
	if a.Failure != core.FailNone {
		return a
	}
	m.t += int64(time.Microsecond)
	m.redis.Do(m.t, op, &a)
	return a
}

func (m *model) refusal(ctx context.Context, op *core.Op) (core.Failure, string) {
	if err := ctx.Err(); err != nil {
		return core.FailUnknown, err.Error()
	}
	ids := make([]string, 0, len(op.Items)+1)
	if op.Owner != "" || op.Kind == core.OpBeat {
		ids = append(ids, op.Owner)
	}
	for _, it := range op.Items {
		ids = append(ids, it.ID)
	}
	for _, id := range ids {
		if id == "" || id == "-" || strings.ContainsFunc(id, forges) || strings.HasSuffix(id, ":fence") {
			return core.FailRefused, "not a name"
		}
	}
	switch {
	case op.TTL <= 0 || op.TTL%core.Millisecond != 0:
		return core.FailRefused, "not a TTL of whole milliseconds"
	case m.loading:
		return core.FailRefused, TextLoading
	}
	return core.FailNone, ""
}

// forges reports whether a name with r in it could be taken for something else in a key or a notice.
func forges(r rune) bool { return r <= ' ' || r == utf8.RuneError }

func (m *model) Look(ctx context.Context, op *core.Op, sessions *core.Sessions) core.Answer {
	m.redis.SetSessions(sessions)
	op.TTL = core.Millisecond
	return m.Do(ctx, op)
}

func (m *model) Bootstrap(context.Context, ...string) error {
	now := m.redis.NowMs(m.t)
	for i := range m.redis.leases {
		if m.redis.expireLease(int32(i), now); m.redis.leases[i].owner != "" {
			return errors.New("a lease lives")
		}
	}
	if len(m.redis.live) > 0 {
		return errors.New("a heartbeat lives")
	}
	m.redis.Bootstrap()
	return nil
}

func (m *model) Lease(id string) (string, time.Duration) {
	i, now := m.redis.Lease(id), m.redis.NowMs(m.t)
	m.redis.expireLease(i, now)
	k := &m.redis.leases[i]
	if k.owner == "" {
		return "", 0
	}
	return k.owner, time.Duration(k.left(now))
}

func (m *model) SetLease(id, owner string, ttl time.Duration) {
	expire := Forever
	if ttl > 0 {
		expire = m.redis.NowMs(m.t) + ttl.Milliseconds()
	}
	m.redis.set(m.redis.Lease(id), owner, expire)
}

func (m *model) DeleteLease(id string)   { m.redis.DeleteLease(m.redis.Lease(id)) }
func (m *model) DeleteFence(id string)   { m.redis.leases[m.redis.Lease(id)].fence = 0 }
func (m *model) SpoilLease(id string)    { m.redis.spoil(m.redis.keyAt("poll:lease:" + id)) }
func (m *model) SpoilFence(id string)    { m.redis.spoil(m.redis.keyAt("{poll:lease:" + id + "}:fence")) }
func (m *model) Flush()                  { m.redis.flush() }
func (m *model) ForgetScripts()          {}
func (m *model) Loading()                { m.loading = true }
func (m *model) Advance(d time.Duration) { m.t += int64(d + time.Millisecond) }

func (m *model) Restart(empty bool) {
	m.redis.restart()
	if empty {
		m.redis.flush()
	}
}

func (m *model) ReadOnly(on bool) {
	m.redis.Readonly = 0
	if on {
		m.redis.Readonly = 1
	}
}

func (m *model) Notices(n int) []core.Notice {
	got := m.heard
	m.heard = nil
	if len(got) < n {
		m.Fatalf("%d notices, want at least %d", len(got), n)
	}
	return got
}

// epochNs is a wall time at which tests begin.
const epochNs = int64(1_704_067_200) * int64(time.Second)
