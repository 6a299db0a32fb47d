package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// TestMain turns the test binary into a worker, to be killed, if asWorker is set.
const (
	asWorker   = "LEASESTORM_TEST_AS_WORKER"
	victimName = "LEASESTORM_TEST_WORKER_NAME"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(asWorker); addr != "" {
		victim(addr)
	}
	goleak.VerifyTestMain(m)
}

// victim runs a worker until it is killed.
func victim(addr string) {
	w, err := New(redis.NewClient(&redis.Options{Addr: addr}), Config{
		Store: options, Name: os.Getenv(victimName), Slots: []string{"1"},
		NewPipeline: func(Job) Pipeline { return newWork(nil) },
	})
	if err == nil {
		err = w.Start(context.Background())
	}
	if err != nil {
		panic(err)
	}
	fmt.Println(w.InstanceID())
	select {}
}

// options leave a busy machine time: an answer may take a quarter of a TTL.
var options = store.Options{Leases: lease.Config{TTL: 4 * time.Second, OpTimeout: time.Second}}

// work is a pipeline that runs until it is stopped or told to return.
type work struct {
	Job
	rig   *rig
	quit  chan struct{}
	once  sync.Once
	ret   chan error
	ctx   context.Context
	fail  error // of Start
	deaf  bool  // Stop does nothing
	late  bool  // the trust had ended when Stop came
	panik bool  // Start panics
}

func newWork(r *rig) *work { return &work{rig: r, quit: make(chan struct{}), ret: make(chan error, 1)} }

func (p *work) Start(ctx context.Context, fence int64) error {
	if p.panik {
		panic("start")
	}
	p.ctx = ctx
	if p.rig != nil && p.fail == nil {
		p.rig.use(p, fence)
	}
	return p.fail
}

func (p *work) Wait() error {
	var err error
	select {
	case err = <-p.ret:
	case <-p.quit:
	}
	if p.rig != nil {
		p.rig.leave(p)
	}
	return err
}

func (p *work) Stop() {
	if !p.deaf {
		p.once.Do(func() {
			p.late = p.ctx.Err() != nil
			close(p.quit)
		})
	}
}

// rig is a Redis, a store for clients, and the tuners, which see every use of a slot or service.
type rig struct {
	*testing.T
	server *redistest.Server
	client *redis.Client
	store  *store.Store

	mu     sync.Mutex
	using  map[string]*work // by slot and by service
	works  map[string]*work // by session: the last
	starts int
	shape  func(*work) // defect of the next pipelines
	events chan struct{}
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, server: redistest.Start(t), using: map[string]*work{}, works: map[string]*work{}, events: make(chan struct{}, 1)}
	r.client = r.server.Client()
	var err error
	if r.store, err = store.New(r.client, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.store.Close() })
	r.must(admin.Bootstrap(t.Context(), r.client, r.store.Options()))
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// use records that a pipeline uses its slot and its service, and fails if another one does.
func (r *rig) use(p *work, fence int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts++
	if fence != p.ResourceFence || p.SlotFence == 0 {
		r.Errorf("session %s has the fences %d, %d and was started with %d", p.SessionID, p.ResourceFence, p.SlotFence, fence)
	}
	for _, what := range []string{"slot " + p.Slot, "service " + p.Resource} {
		if other := r.using[what]; other != nil {
			r.Errorf("%s serves the sessions %s and %s at once", what, other.SessionID, p.SessionID)
		}
		r.using[what] = p
	}
	r.works[p.SessionID] = p
}

func (r *rig) leave(p *work) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.using, "slot "+p.Slot)
	delete(r.using, "service "+p.Resource)
}

func (r *rig) work(session string) *work {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.works[session]
}

func (r *rig) config(name string, slots ...string) Config {
	return Config{Store: options, Name: name, Slots: slots, NewPipeline: func(j Job) Pipeline {
		p := newWork(r)
		p.Job = j
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.shape != nil {
			r.shape(p)
		}
		return p
	}}
}

func (r *rig) run(cfg Config) *Worker {
	r.Helper()
	w, err := New(r.client, cfg)
	r.must(err)
	r.must(w.Start(r.Context()))
	r.Cleanup(func() { _ = w.Stop() })
	return w
}

func (r *rig) start(ref, profile string) string {
	r.Helper()
	start := intent.Request{Resource: ref, Profile: profile}
	id, _, err := r.store.Put(r.Context(), uuid.Must(uuid.NewV7()).String(), start, time.Minute)
	r.must(err)
	return id
}

// wait waits until the session has this state and reason, and returns it.
func (r *rig) wait(id string, state intent.State, reason intent.Reason) intent.Session {
	r.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(30 * time.Second)
	for {
		s, err := r.store.Get(r.Context(), id)
		if err == nil && s.State == state && s.Reason == reason {
			return s
		}
		select {
		case <-tick.C:
		case <-timeout:
			r.Fatalf("session is %+v (%v), want %s %s", s, err, state, reason)
		}
	}
}

func (r *rig) stop(id string) {
	r.Helper()
	_, err := r.store.Stop(r.Context(), id)
	r.must(err)
}

// idle checks that no lease and no entry is left, delivered entries included.
func (r *rig) idle() {
	r.Helper()
	if keys := r.client.Keys(r.Context(), "intent:lease:*").Val(); len(keys) > 0 {
		r.Errorf("leases are left: %v", keys)
	}
	if n := r.client.XLen(r.Context(), "intent:bus").Val(); n > 0 {
		r.Errorf("%d entries are left on the bus", n)
	}
}

// Start, conflict, no tuner, stop, start again (ADR 5.2, I5).
func TestLifeOfSessions(t *testing.T) {
	r := newRig(t)
	w := r.run(r.config("w1", "1", "2"))
	a := r.start("a", "hd")
	s := r.wait(a, intent.StateRunning, "")
	if s.Slot != "1" || s.Worker != w.InstanceID() || s.Fence == 0 || s.SlotFence == 0 {
		t.Errorf("%+v", s)
	}
	r.wait(r.start("a", "sd"), intent.StateEnded, intent.ReasonLeaseBusy)
	b := r.start("b", "hd")
	if s := r.wait(b, intent.StateRunning, ""); s.Slot != "2" {
		t.Errorf("%+v", s)
	}
	r.wait(r.start("c", "hd"), intent.StateEnded, intent.ReasonNoSlot)
	r.stop(a)
	r.wait(a, intent.StateEnded, intent.ReasonStopped)
	again := r.start("a", "hd")
	if s := r.wait(again, intent.StateRunning, ""); again == a || s.Slot != "1" {
		t.Errorf("%+v", s)
	}
	r.work(again).ret <- nil
	r.wait(again, intent.StateEnded, intent.ReasonStopped)
	r.work(b).ret <- errors.New("no signal")
	if s := r.wait(b, intent.StateEnded, intent.ReasonPipelineFailed); s.Detail != "no signal" {
		t.Errorf("%+v", s)
	}
	r.idle()
}

func TestPipelinesThatFail(t *testing.T) {
	r := newRig(t)
	r.run(r.config("w1", "1"))
	r.shape = func(p *work) { p.fail = errors.New("no card") }
	if s := r.wait(r.start("a", "hd"), intent.StateEnded, intent.ReasonPipelineFailed); s.Detail != "no card" {
		t.Errorf("%+v", s)
	}
	r.mu.Lock()
	r.shape = func(p *work) { p.panik = true }
	r.mu.Unlock()
	r.wait(r.start("a", "hd"), intent.StateEnded, intent.ReasonPipelineFailed)
	r.idle()
}

// With two workers and more services than slots, every start ends, and no slot or service serves two pipelines at once.
func TestManyStartsTwoWorkers(t *testing.T) {
	r := newRig(t)
	slots := []string{"1", "2", "3", "4", "5"}
	r.run(r.config("w1", slots...))
	r.run(r.config("w2", slots...))
	var ids []string
	for i := range 40 {
		ids = append(ids, r.start(fmt.Sprint("s", i%8), fmt.Sprint("p", i)))
	}
	running := 0
	for _, id := range ids {
		if s := r.settled(id); s.State == intent.StateRunning {
			running++
		}
	}
	if running == 0 || running > 5 {
		t.Errorf("%d run in 5 slots", running)
	}
	for _, id := range ids {
		r.stop(id)
	}
	for _, id := range ids {
		if s := r.ended(id); s.StopAsked {
			t.Errorf("%+v", s)
		}
	}
	r.idle()
}

func (r *rig) until(id string, ok func(intent.Session) bool) intent.Session {
	r.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(30 * time.Second)
	for {
		s, err := r.store.Get(r.Context(), id)
		r.must(err)
		if ok(s) {
			return s
		}
		select {
		case <-tick.C:
		case <-timeout:
			r.Fatalf("session stays %+v", s)
		}
	}
}

func (r *rig) settled(id string) intent.Session {
	return r.until(id, func(s intent.Session) bool { return s.State == intent.StateRunning || s.State == intent.StateEnded })
}

func (r *rig) ended(id string) intent.Session {
	return r.until(id, func(s intent.Session) bool { return s.State == intent.StateEnded })
}

// A stopping worker ends its running sessions and leaves the starts that it has not begun to others.
func TestStopLeavesNothing(t *testing.T) {
	r := newRig(t)
	w := r.run(r.config("w1", "1"))
	a := r.start("a", "hd")
	r.wait(a, intent.StateRunning, "")
	r.must(w.Stop())
	r.wait(a, intent.StateEnded, intent.ReasonStopped)
	r.idle()
	b := r.start("b", "hd")
	r.run(r.config("w2", "1"))
	r.wait(b, intent.StateRunning, "")
}

// A pipeline that does not stop keeps its leases until they expire, and its session ends.
func TestStuckPipeline(t *testing.T) {
	r := newRig(t)
	cfg := r.config("w1", "1")
	cfg.StopTimeout = 50 * time.Millisecond
	r.run(cfg)
	r.shape = func(p *work) { p.deaf = true }
	a := r.start("a", "hd")
	r.wait(a, intent.StateRunning, "")
	r.stop(a)
	r.wait(a, intent.StateEnded, intent.ReasonPipelineFailed)
	if r.client.Exists(t.Context(), "intent:lease:resource:a", "intent:lease:slot:1").Val() != 2 {
		t.Error("the leases of a stuck pipeline were given back")
	}
	r.mu.Lock()
	r.shape = nil
	r.mu.Unlock()
	r.work(a).ret <- nil
	r.until(r.start("a", "sd"), func(s intent.Session) bool { return s.State == intent.StateEnded || s.State == intent.StateRunning })
}

// While Redis is cut off, the worker stops the pipeline before its trust ends. The session ends when Redis is back.
func TestRedisGoesAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run(r.config("w1", "1"))
	a := r.start("a", "hd")
	r.wait(a, intent.StateRunning, "")
	p := r.work(a)
	r.server.Freeze()
	select {
	case <-p.quit:
	case <-time.After(20 * time.Second):
		t.Fatal("the pipeline was not asked to stop")
	}
	if p.late {
		t.Error("the trust ended before the pipeline was asked to stop")
	}
	r.server.Thaw()
	r.wait(a, intent.StateEnded, intent.ReasonLeaseLost)
}

// If Redis loses its data, a pipeline without a record ends. Otherwise its service would stay busy forever.
func TestRedisForgets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run(r.config("w1", "1"))
	a := r.start("a", "hd")
	r.wait(a, intent.StateRunning, "")
	r.server.Flush()
	<-r.work(a).quit
	for {
		b := r.start("a", "hd")
		if s := r.settled(b); s.State == intent.StateRunning {
			break
		}
	}
}

// Phase 1: the worker takes over the API's lease for the session, with a new fence.
func TestAdoptsTheLeaseOfTheAPI(t *testing.T) {
	r := newRig(t)
	id, _, err := r.store.PutLeased(t.Context(), uuid.Must(uuid.NewV7()).String(), intent.Request{Resource: "a"}, time.Minute)
	r.must(err)
	if owner := r.client.Get(t.Context(), "intent:lease:resource:a").Val(); owner != "session:"+id {
		t.Fatal(owner)
	}
	w := r.run(r.config("w1", "1"))
	r.wait(id, intent.StateRunning, "")
	if owner := r.client.Get(t.Context(), "intent:lease:resource:a").Val(); owner != w.InstanceID() {
		t.Error(owner)
	}
}

// Malformed entries of another program become dead letters. A well-formed one without a session takes a slot until the worker notices that.
func TestForeignEntries(t *testing.T) {
	r := newRig(t)
	r.run(r.config("w1", "1", "2", "3"))
	a := r.start("a", "hd")
	r.wait(a, intent.StateRunning, "")
	unknown := uuid.NewString()
	foreign := [][]string{
		{"x", "y"}, {"type", "stop", "session", a, "service", "a", "profile", "hd", "start", "0"},
		{"type", "start", "session", "x", "service", "a", "profile", "hd", "start", "0"},
		{"type", "start", "session", unknown, "service", "a b", "profile", "hd", "start", "0"},
		{"type", "start", "session", unknown, "service", "b:", "profile", "hd", "start", "0"},
		{"type", "start", "session", unknown, "service", "b", "profile", "", "start", "0"},
		{"type", "start", "session", unknown, "service", "b", "profile", "hd", "start", "x"},
		{"type", "start", "session", unknown, "service", "b", "profile", "hd", "start", "0"},
	}
	r.stop(a)
	r.wait(a, intent.StateEnded, intent.ReasonStopped)
	for _, values := range foreign {
		r.must(r.client.XAdd(t.Context(), &redis.XAddArgs{Stream: "intent:bus", Values: values}).Err())
	}
	r.wait(r.start("c", "hd"), intent.StateRunning, "")
	r.deadLetters(int64(len(foreign)))
}

// Entries without a session also become dead letters if they end before they have their leases.
func TestForeignEntriesThatAreRejected(t *testing.T) {
	r := newRig(t)
	r.run(r.config("w1", "1"))
	r.wait(r.start("a", "hd"), intent.StateRunning, "")
	for _, service := range []string{"a", "b"} { // busy, and no tuner
		r.must(r.client.XAdd(t.Context(), &redis.XAddArgs{Stream: "intent:bus", Values: []string{
			"type", "start", "session", uuid.NewString(), "service", service, "profile", "hd", "start", "0",
		}}).Err())
	}
	r.deadLetters(2)
}

// If an older copy of the data brings back the entry of an ended session, it does not take a slot again and again.
func TestEntryOfWhatHasEnded(t *testing.T) { // I3
	r := newRig(t)
	r.run(r.config("w1", "1"))
	a := r.start("a", "hd")
	r.wait(a, intent.StateRunning, "")
	r.stop(a)
	r.wait(a, intent.StateEnded, intent.ReasonStopped)
	r.must(r.client.XAdd(t.Context(), &redis.XAddArgs{Stream: "intent:bus", Values: []string{
		"type", "start", "session", a, "service", "a", "profile", "hd", "start", "0",
	}}).Err())
	r.deadLetters(0)
}

// deadLetters waits until the bus is empty, and checks how many entries have become dead letters.
func (r *rig) deadLetters(want int64) {
	r.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(30 * time.Second)
	for r.client.XLen(r.Context(), "intent:bus").Val() > 0 {
		select {
		case <-tick.C:
		case <-timeout:
			r.Fatal("the bus is never empty")
		}
	}
	if n := r.client.XLen(r.Context(), "intent:dead").Val(); n != want {
		r.Errorf("%d dead letters, want %d", n, want)
	}
}
