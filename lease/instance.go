package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/lifetime"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// store is the part of internal/redisstore that a shell uses.
type store interface {
	Do(ctx context.Context, op *core.Op) core.Answer
	Look(ctx context.Context, op *core.Op, s *core.Sessions) core.Answer
	Subscribe(ctx context.Context, renew time.Duration, heard func(core.Notice), up func(error))
	Nodes(ctx context.Context) ([]core.Seen, error)
	Pass(ctx context.Context, owner, heir string, ttl time.Duration, ids ...string) ([]string, error)
	Check(ctx context.Context) ([]redisstore.Warning, error)
	Permitted(ctx context.Context, use redisstore.Use) error
	Line(use redisstore.Use) string
	CheckQuarantine(ctx context.Context) error
	Surplus(ctx context.Context) error
	Begin(ctx context.Context) (why string)
	TooShort(needs, agreed time.Duration) error
	CheckLease(name string) error
	Asked(ctx context.Context, g redisstore.Give) (from string)
	Done(ctx context.Context, name string) (bool, error)
	NoteDone(ctx context.Context, h redisstore.Holding, life time.Duration) (bool, error)
	Close() error
}

// instance is what the parts of a shell share.
type instance struct {
	cfg    ManagerConfig
	keeper bool // serves a Keeper, whose terms are for callers and listeners
	store  store
	base   time.Time // zero of core.Time
	log    *zaplog.Log
	state  atomic.Int32
	life   *lifetime.Lifetime
	inbox  inbox

	ctx     context.Context // of all requests
	cancel  context.CancelFunc
	workers sync.WaitGroup

	draining bool // loop only: Stop was called
}

// lastWait is how long Stop waits, after the drain, for functions of the caller's that nobody can end: Config.Sessions, Config.Notify,
// and the writer of Config.Logger.
const lastWait = time.Second

func newInstance(st store, cfg ManagerConfig, keeper bool) *instance {
	in := &instance{
		cfg:    cfg,
		keeper: keeper,
		store:  st,
		base:   time.Now().Add(-1), // so that no reading is 0, which means never
		log:    zaplog.NewLog(cfg.Logger, cfg.InstanceID),
		life:   lifetime.New(),
		inbox:  inbox{wake: make(chan struct{}, 1)},
	}
	in.ctx, in.cancel = context.WithCancel(context.Background())
	return in
}

// now reads both clocks at once.
func (in *instance) now() core.Now {
	t := time.Now()
	return core.Now{Mono: core.Time(t.Sub(in.base)), Wall: t.UnixNano()}
}

func (in *instance) time(t core.Time) time.Time { return in.base.Add(time.Duration(t)) }

// late is how long the caller's functions and the loop may take: RenewInterval + OpTimeout, which is less than a TTL.
func (in *instance) late() time.Duration { return in.cfg.RenewInterval + in.cfg.OpTimeout }

func (in *instance) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-in.ctx.Done():
		return false
	}
}

func (in *instance) running() error {
	started, stopped := in.life.State()
	switch {
	case stopped:
		return ErrStopped
	case !started:
		return errNotStarted
	}
	return nil
}

func (in *instance) post(f func())       { in.inbox.put(message{run: f}) }
func (in *instance) event(ev core.Event) { in.inbox.put(message{ev: ev}) }
func (in *instance) heard(n core.Notice) { in.event(core.Event{Kind: core.EvNotice, Notice: n}) }

func (in *instance) nameError(name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("%w: %s %s", errName, brief(name), err)
	}
	if err := in.store.CheckLease(name); err != nil {
		return fmt.Errorf("%w: %w", errName, err)
	}
	return nil
}

// use is this instance's use of Redis, for the check of permissions.
func (in *instance) use() redisstore.Use { return redisstore.Use{Registry: !in.keeper} }

// granting adds to a denial the ACL line that grants the needed rights. names are the leases concerned.
func (in *instance) granting(err error, names ...string) error {
	if !redisstore.Denies(err) {
		return err
	}
	use := in.use()
	use.Leases = names
	return redisstore.Granting(err, in.store.Line(use))
}

// release releases name and waits for Redis' answer. If h is nil, it releases any term.
func (in *instance) release(ctx context.Context, name string, h *Lease) error {
	if err := in.running(); errors.Is(err, errNotStarted) {
		return err
	}
	ch := make(chan error, 1)
	in.inbox.put(message{release: &release{name, h, ch}})
	select {
	case err := <-ch:
		return in.granting(err, name)
	case <-ctx.Done():
		return fmt.Errorf("release of lease %q: %w: %w", name, context.Cause(ctx), errUnknown)
	case <-in.life.Done():
		if h != nil && h.over() {
			return nil
		}
		return ErrStopped
	}
}
