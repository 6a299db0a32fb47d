package lease

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeRedis is the shared state of a test's instances, the least that the shell needs of a Redis. The scripts have their own tests, with a
// real server.
type fakeRedis struct {
	mu     sync.Mutex
	leases map[string]fakeLease
	nodes  map[string]time.Time // expiry of heartbeats
	heard  map[int]func(core.Notice)
	seq    int
	fence  int64
	losses int           // of all data, so far
	quiet  time.Time     // end of quarantine
	ahead  time.Duration // of its clock; 0: its answers have no time
	asked  []redisstore.Give
	reads  int // number of reads
}

type fakeLease struct {
	owner string
	fence int64
	exp   time.Time
}

func newFakeRedis() *fakeRedis {
	return &fakeRedis{leases: map[string]fakeLease{}, nodes: map[string]time.Time{}, heard: map[int]func(core.Notice){}}
}

// fakeStore is one instance's store on a fakeRedis.
type fakeStore struct {
	r *fakeRedis
	// fault, if set, decides over an op before it is executed: lost true means no answer before the deadline; executed
	// says whether Redis did it all the same.
	mu    sync.Mutex
	fault func(op *core.Op) (lost, executed bool)
	many  error // answer of the check of replicas

	looked atomic.Pointer[core.Answer] // answer to discoveries; nil: the real state
}

func (f *fakeStore) tooMany(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.many = err
}

func (f *fakeStore) Done(context.Context, string) (bool, error) { return false, nil }

func (f *fakeStore) NoteDone(context.Context, redisstore.Holding, time.Duration) (bool, error) {
	return true, nil
}

func (f *fakeStore) Surplus(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.many
}

func (f *fakeStore) set(fault func(op *core.Op) (lost, executed bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func mute(*core.Op) (lost, executed bool) { return true, false }

func (f *fakeStore) run(ctx context.Context, op *core.Op, do func() core.Answer) core.Answer {
	f.mu.Lock()
	fault := f.fault
	f.mu.Unlock()
	lost, executed := false, true
	if fault != nil {
		lost, executed = fault(op)
	}
	var a core.Answer
	if !lost || executed {
		a = do()
	}
	trip := time.NewTimer(time.Millisecond)
	defer trip.Stop()
	if lost {
		<-ctx.Done()
		return core.Answer{Failure: core.FailUnknown, Text: "no answer"}
	}
	select {
	case <-ctx.Done():
		return core.Answer{Failure: core.FailUnknown, Text: "no answer"}
	case <-trip.C:
		return a
	}
}

func (f *fakeStore) Do(ctx context.Context, op *core.Op) core.Answer {
	if a := f.looked.Load(); a != nil && op.Kind == core.OpNews && a.Failure == core.FailNone {
		return *a
	}
	return f.run(ctx, op, func() core.Answer { return f.r.do(op) })
}

func (f *fakeStore) Look(ctx context.Context, op *core.Op, s *core.Sessions) core.Answer {
	if a := f.looked.Load(); a != nil {
		return *a
	}
	return f.run(ctx, op, func() core.Answer { return f.r.look(op, s) })
}

func (f *fakeStore) Nodes(context.Context) ([]core.Seen, error) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	return f.r.seen(), nil
}

func (f *fakeStore) Begin(context.Context) string {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	if f.r.losses == 0 {
		return "it was started 1 s ago"
	}
	return ""
}

func (f *fakeStore) Check(context.Context) ([]redisstore.Warning, error) { return nil, nil }
func (f *fakeStore) Permitted(context.Context, redisstore.Use) error     { return nil }
func (f *fakeStore) Line(redisstore.Use) string                          { return "" }
func (f *fakeStore) CheckQuarantine(context.Context) error               { return nil }
func (f *fakeStore) TooShort(time.Duration, time.Duration) error         { return errQuarantineTooShort }
func (f *fakeStore) Pass(context.Context, string, string, time.Duration, ...string) ([]string, error) {
	return nil, nil
}

func (f *fakeStore) Asked(_ context.Context, g redisstore.Give) string {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	f.r.reads++
	g.From = "leasectl"
	if slices.Contains(f.r.asked, g) {
		return g.From
	}
	return ""
}

func (f *fakeStore) CheckLease(string) error { return nil }
func (f *fakeStore) Close() error            { return nil }

func (f *fakeStore) Subscribe(ctx context.Context, _ time.Duration, heard func(core.Notice), up func(error)) {
	f.r.mu.Lock()
	f.r.seq++
	id := f.r.seq
	f.r.heard[id] = heard
	f.r.mu.Unlock()
	up(nil)
	<-ctx.Done()
	f.r.mu.Lock()
	delete(f.r.heard, id)
	f.r.mu.Unlock()
}

func (r *fakeRedis) answer() core.Answer {
	a := core.Answer{Epoch: fmt.Sprint("run ", r.losses)}
	if r.ahead != 0 {
		a.RedisNow = time.Now().Add(r.ahead).UnixMicro()
	}
	if left := time.Until(r.quiet); left > 0 {
		a.Quarantine = int64(left)
	}
	return a
}

func (r *fakeRedis) do(op *core.Op) core.Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	a := r.answer()
	a.Seq = op.Seq
	if a.Stale = op.Epoch != a.Epoch && op.Kind != core.OpObserve && op.Kind != core.OpNodes; a.Stale {
		return a
	}
	for i := range op.Items {
		a.Results = append(a.Results, r.item(op, &op.Items[i], now))
	}
	n := core.Notice{From: op.Owner}
	for i, it := range op.Items {
		switch {
		case op.Kind == core.OpAcquire && a.Results[i].Fence != 0:
			n.Kind = core.NoticeTaken
			n.IDs = append(n.IDs, it.ID)
		case op.Kind == core.OpRelease && a.Results[i].Outcome == core.OutReleased:
			n.Kind = core.NoticeFreed
			n.IDs, n.Peers = append(n.IDs, it.ID), append(n.Peers, it.Peer)
		case op.Kind == core.OpAsk:
			n.Kind = core.NoticeAsked
			n.IDs, n.Peers = append(n.IDs, it.ID), []string{it.Peer}
		}
	}
	switch op.Kind {
	case core.OpNews:
		a.News = &core.News{Age: -1, Mine: true}
	case core.OpBeat:
		if r.nodes[op.Owner].Before(now) {
			n.Kind = core.NoticeJoined
		}
		r.nodes[op.Owner] = now.Add(time.Duration(op.TTL))
	case core.OpLeave:
		n.Kind = core.NoticeLeft
		delete(r.nodes, op.Owner)
	}
	if n.Kind != 0 {
		for _, heard := range r.heard {
			heard(n)
		}
	}
	return a
}

func (r *fakeRedis) item(op *core.Op, it *core.Item, now time.Time) core.Result {
	l, held := r.leases[it.ID]
	held = held && l.exp.After(now)
	exp := now.Add(time.Duration(op.TTL))
	switch op.Kind {
	case core.OpAcquire:
		switch {
		case held && l.owner != op.Owner:
			return core.Result{Outcome: core.OutHeld, Owner: l.owner, PTTL: int64(l.exp.Sub(now))}
		case r.quiet.After(now):
			return core.Result{Outcome: core.OutQuarantine}
		}
		r.fence = max(r.fence, op.Fence) + 1
		r.leases[it.ID] = fakeLease{op.Owner, r.fence, exp}
		if held {
			return core.Result{Outcome: core.OutAdopted, Fence: r.fence}
		}
		return core.Result{Outcome: core.OutGranted, Fence: r.fence}
	case core.OpReassert:
		r.leases[it.ID] = fakeLease{op.Owner, it.Fence, exp}
		return core.Result{Outcome: core.OutReasserted}
	case core.OpRenew:
		if !held || l.owner != op.Owner {
			return core.Result{Outcome: core.OutLost}
		}
		l.exp = exp
		r.leases[it.ID] = l
		return core.Result{Outcome: core.OutRenewed}
	case core.OpRelease:
		if !held || l.owner != op.Owner || l.fence != it.Fence {
			return core.Result{Outcome: core.OutLost}
		}
		delete(r.leases, it.ID)
		return core.Result{Outcome: core.OutReleased}
	case core.OpObserve:
		if !held {
			return core.Result{Outcome: core.OutFree}
		}
		return core.Result{Outcome: core.OutHeld, Owner: l.owner, PTTL: int64(l.exp.Sub(now))}
	case core.OpNodes:
		if left := r.nodes[it.ID].Sub(now); left > 0 {
			return core.Result{Outcome: core.OutAlive, PTTL: int64(left)}
		}
		return core.Result{Outcome: core.OutGone}
	}
	return core.Result{}
}

// clock sets how far Redis' clock is ahead.
func (r *fakeRedis) clock(ahead time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead = ahead
}

// forget loses all data; a quarantine follows.
func (r *fakeRedis) forget(quarantine time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses++
	r.quiet = time.Now().Add(quarantine)
	clear(r.leases)
	clear(r.nodes)
}

func (r *fakeRedis) seen() (nodes []core.Seen) {
	for id, exp := range r.nodes {
		if left := time.Until(exp); left > 0 {
			nodes = append(nodes, core.Seen{ID: id, PTTL: int64(left)})
		}
	}
	slices.SortFunc(nodes, func(a, b core.Seen) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return nodes
}

func (r *fakeRedis) look(op *core.Op, s *core.Sessions) core.Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.answer()
	a.Seq = op.Seq
	a.Look = &core.Look{Sessions: s, Owners: make([]string, len(s.IDs)), Nodes: r.seen()}
	for i, id := range s.IDs {
		if l, ok := r.leases[id]; ok && l.exp.After(time.Now()) {
			a.Look.Owners[i] = l.owner
		}
	}
	return a
}

func (r *fakeRedis) owner(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.leases[id]; ok && l.exp.After(time.Now()) {
		return l.owner
	}
	return ""
}

// rig is one instance on a fake Redis inside a synctest bubble, with its log.
type rig struct {
	*shell
	fake *fakeStore
	log  *observer.ObservedLogs
}

func newRig(t *testing.T, r *fakeRedis, name string, keeper bool, change func(*ManagerConfig)) *rig {
	t.Helper()
	zc, log := observer.New(zapcore.DebugLevel)
	cfg := ManagerConfig{Config: Config{InstanceID: name, Logger: zap.New(zc)}}
	if change != nil {
		change(&cfg)
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		t.Fatal(err)
	}
	fake := &fakeStore{r: r}
	s := startShell(fake, cfg, keeper)
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.stop() })
	return &rig{s, fake, log}
}

func (g *rig) keeperOf() *Keeper   { return &Keeper{g.shell} }
func (g *rig) managerOf() *Manager { return &Manager{g.shell} }

// pass lets d of the bubble's time go by, and everything that happens in it.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
