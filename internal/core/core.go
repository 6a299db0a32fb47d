package core

// Core is one instance's view of the leases, the sessions and the other instances. It is not safe for concurrent use.
type Core struct {
	*base
	entries    *entries
	silence    *silence
	holder     *holder
	keeper     *keeper
	balancer   *balancer
	heartbeats *heartbeats

	drained   bool
	next      Time // as of the last step
	nextRenew Time // when all held leases are renewed and the heartbeat is set
}

// New returns the core of one instance. cfg's zero fields take their defaults. The caller must have checked that the durations are
// consistent.
func New(cfg Config) *Core {
	b := newBase(cfg.WithDefaults())
	c := &Core{base: b, entries: &entries{base: b, leases: map[string]*lease{}}, silence: &silence{base: b}}
	c.holder = &holder{base: b, entries: c.entries, silence: c.silence}
	c.keeper = &keeper{base: b, entries: c.entries, silence: c.silence, holder: c.holder,
		stuck: map[string][]int64{}}
	c.balancer = &balancer{base: b, entries: c.entries, holder: c.holder, keeper: c.keeper}
	c.heartbeats = &heartbeats{base: b, entries: c.entries, balancer: c.balancer}
	return c
}

// Next returns when the core needs an EvTick; zero: never.
func (c *Core) Next() Time { return c.next }

// Blocked returns until when nothing may be acquired, and why; 0 if it may.
func (c *Core) Blocked() (Time, Cause) { return c.keeper.blocked() }

// Disbelieved returns the epoch of the server if it is not believed, "" once the answer to a later op is believed.
func (c *Core) Disbelieved() string { return c.k.Disbelieved() }

// Unreleased reports whether a lease is, or may be, in this instance's name at Redis.
func (c *Core) Unreleased() bool {
	return len(c.entries.held) > 0 || c.entries.releasing > 0 || c.entries.acquiring > 0
}

// PreferredOwner returns the instance that should own id: its target, or its owner if that keeps it. For an unknown session, it is the
// live instance that ranks the session highest; "" if no instance is live.
func (c *Core) PreferredOwner(id string) string { return c.table.PreferredOwner(id) }

// LiveNodes returns the IDs of the instances that count, in ascending order. This one is included unless it is draining or withdrawn.
func (c *Core) LiveNodes() []string { return c.table.Live() }

// Settled reports whether this instance sees no session left to move: every session has a live owner, and none has another target.
func (c *Core) Settled() bool {
	if !c.own.Started() || c.own.Leaving() || c.silence.on || c.cfg.Place && !c.members.Looked() {
		return false
	}
	return c.table.Balanced()
}
