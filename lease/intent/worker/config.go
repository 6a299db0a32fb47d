package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	core "github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/internal/membership"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// Errors for errors.Is.
var (
	// ErrOtherWorker means that SingleWriter is set, and another worker is
	// still alive after a TTL.
	ErrOtherWorker = membership.ErrOtherWorker
	// ErrStuck means that a pipeline did not return in time. Its leases expire.
	ErrStuck = errors.New("a pipeline did not return in time")
	// ErrStopped means that the worker has stopped. Make a new one.
	ErrStopped = errors.New("stopped")
)

// Job is a pipeline's task.
type Job struct {
	SessionID string
	intent.Request
	Worker string
	Slot   string
	// Send both fences with every request to the resource and the slot, so that
	// they can refuse late requests of a frozen process.
	ResourceFence int64
	SlotFence     int64

	_ struct{}
}

// Pipeline is the work of one session. Start is called once. If it returns nil,
// Wait is called once, and Stop any number of times. A method that panics or
// exits its goroutine has failed. The first KiB of an error's text becomes the
// session's Detail.
type Pipeline interface {
	// Start begins the work under the fence of the resource's lease. It should
	// return within seconds. ctx ends when the trust in either lease ends, and
	// after Wait has returned. The work must not outlast ctx.
	Start(ctx context.Context, fence int64) error
	// Wait returns when the work has ended, by itself or after Stop, and no
	// longer uses slot or resource.
	Wait() error
	// Stop requests the end of the work. It returns at once.
	Stop()
}

// Config configures a worker.
type Config struct {
	// Store configures the store in Redis. Store.Leases has the TTL of the
	// leases, their renewal, and the logger.
	Store store.Options
	// Name identifies the worker across restarts. "": the host's name. A
	// starting worker frees the leases of an earlier process of its name at
	// once if it can prove that process dead, which requires the same machine
	// and container.
	Name string
	// InstanceID names this process; "": lease.GenerateInstanceID().
	InstanceID string
	// Slots is the pool that all workers share, in the order of attempts.
	Slots []string
	// NewPipeline makes the pipeline of a job, in the goroutine that then calls
	// the pipeline's Start. Until NewPipeline and Start have returned, the
	// session counts as starting. After a stop or the loss of a lease, they
	// have StopTimeout to return. If a lease is uncertain after NewPipeline,
	// Start is not called.
	NewPipeline func(Job) Pipeline
	// The worker calls a pipeline's Stop at the latest Grace before the trust
	// in its leases ends. 0: TTL/6. The trust must last for Grace, a renewal
	// interval and a timeout (Store.Leases.RenewInterval and OpTimeout).
	Grace time.Duration
	// StopTimeout is how long a pipeline may take to return after Stop. After
	// that, the worker abandons the pipeline's leases, which expire. 0: TTL.
	StopTimeout time.Duration
	// MaxTries is the number of times that a request is delivered to a worker.
	// If no delivery is finished, the request becomes a dead letter. 0: 5.
	MaxTries int
	// Starting is the maximum number of sessions that this worker starts at the
	// same time. 0: 128.
	Starting int
	// SingleWriter declares that there is no other worker. At its start, the
	// worker deletes all leases on resources and slots.
	//
	// Start first waits until every other worker is dead. Without proof, a
	// worker counts as dead a TTL after its last heartbeat, or after two missed
	// heartbeats (TTL/5) if it has the same Name. If another worker is still
	// alive after a TTL, Start returns ErrOtherWorker.
	SingleWriter bool
	// Notify, if not nil, receives every event of a lease, like
	// lease.Config.Notify. It must return at once and not use the leases.
	Notify func(lease.Event)
	// Observer counts for metrics; nil: no counts.
	Observer intent.Observer
	// Logger gets an entry for every session that this worker runs or ends. If
	// Store.Leases.Logger is nil, Logger also gets the entries of the leases.
	// nil: warnings and errors go to standard error; zap.NewNop() silences
	// them. For the client library's own log see lease.Config.Logger.
	Logger *zap.Logger

	_ struct{}
}

func (c Config) withDefaults() Config {
	if c.Store.Leases.TTL == 0 {
		c.Store.Leases.TTL = lease.DefaultTTL
	}
	ttl := c.Store.Leases.TTL
	if c.InstanceID == "" {
		c.InstanceID = lease.GenerateInstanceID()
	}
	if c.Name == "" {
		c.Name, _ = os.Hostname()
		c.Name = cmp.Or(c.Name, c.InstanceID)
	}
	m := membership.Settings(c.Store.Names.Table(), "", nil, ttl, 0)
	c.Grace, c.StopTimeout = cmp.Or(c.Grace, time.Duration(m.Grace)), cmp.Or(c.StopTimeout, time.Duration(m.StopTimeout))
	c.MaxTries, c.Starting = cmp.Or(c.MaxTries, m.MaxTries), cmp.Or(c.Starting, m.Starting)
	if c.Logger == nil {
		c.Logger = zaplog.Default()
	}
	return c
}

func (c *Config) validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", lease.ErrInvalidConfig, fmt.Sprintf(format, args...))
	}
	seen := map[string]bool{}
	for _, s := range c.Slots {
		if s == "" || seen[s] || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return bad("slot %q is empty, there twice, or not printable ASCII without spaces", s)
		}
		seen[s] = true
	}
	ttl := c.Store.Leases.TTL
	trust := ttl - max(ttl/100, 5*time.Millisecond) // as in lease.Config
	switch {
	case c.NewPipeline == nil:
		return bad("NewPipeline is missing")
	case len(c.Slots) == 0:
		return bad("Slots is empty: no session could ever run")
	case c.Grace < time.Millisecond || c.Grace > ttl/2:
		return bad("Grace is %v; it must be 1ms to half of the TTL, %v", c.Grace, ttl/2)
	case c.renewed() > trust-c.Grace:
		return bad("Store.Leases.RenewInterval and OpTimeout, %v together, leave no time before pipelines are asked to stop: trust ends %v "+
			"after a renewal, and Grace is %v", c.renewed(), trust, c.Grace)
	case c.StopTimeout < time.Millisecond || c.MaxTries < 1 || c.Starting < 1:
		return bad("StopTimeout is %v, MaxTries %d and Starting %d; they must be at least 1ms, 1 and 1", c.StopTimeout, c.MaxTries,
			c.Starting)
	}
	return nil
}

// renewed is the longest time from one renewal until the next one has succeeded
// or failed.
func (c *Config) renewed() time.Duration {
	l := &c.Store.Leases
	return cmp.Or(l.RenewInterval, l.TTL/3) + cmp.Or(l.OpTimeout, l.TTL/10)
}

func (c *Config) core(opTimeout time.Duration) core.Config {
	m := membership.Settings(c.Store.Names.Table(), c.InstanceID, c.Slots, c.life(), opTimeout)
	m.Grace, m.StopTimeout, m.MaxTries, m.Starting = int64(c.Grace), int64(c.StopTimeout), c.MaxTries, c.Starting
	return m
}

// life is how long after its last beat a worker is dead.
func (c *Config) life() time.Duration { return c.Store.Leases.TTL }
