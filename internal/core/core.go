package core

import (
	"github.com/leasestorm/leasestorm/internal/member"
	"github.com/leasestorm/leasestorm/internal/pause"
	"github.com/leasestorm/leasestorm/internal/place"
	"github.com/leasestorm/leasestorm/internal/term"
)

// Core is one instance's view of the leases, the sessions and the other instances. It is not safe for concurrent use.
type Core struct {
	cfg   Config
	k     *term.Kernel
	pause pause.Config
	eff   Effects

	drained bool

	next      Time // as of the last step
	timers    timerHeap
	nextRenew Time // when all held leases are renewed and the heartbeat is set
	nextProbe Time // when to probe: in a silence, or to find a new epoch (seek)
	nextHeard Time // when observeWanted runs, if resubscriptions were too frequent

	leases    map[string]*lease // every lease this instance holds, wants or watches; ranged over only in sorted order
	held      []*lease          // held leases, in an arbitrary but reproducible order
	releasing int               // leases whose release is not confirmed
	acquiring int               // leases whose acquisition is not answered

	ops    inflights
	asking []*lease // scratch space of batch

	silence silence
	paces   [term.Kinds]pace // by OpKind
	slowed  Time             // no pace ends later
	refusal refusal

	members *member.Registry
	own     *member.Membership // this instance's part among the members
	table   *place.Table

	queue queue
}

// queue collects requests, so that they leave in as few ops as possible: at the end of the step, or later if requests of their kind
// have failed (pace).
type queue struct {
	leases [term.Kinds][]*lease // by OpKind
	probe  bool
}

// New returns the core of one instance. cfg's zero fields take their defaults. The caller must have checked that the durations are
// consistent.
func New(cfg Config) *Core {
	cfg = cfg.WithDefaults()
	c := &Core{
		cfg:    cfg,
		k:      term.New(cfg.terms()),
		pause:  cfg.pauses(),
		leases: map[string]*lease{},
	}
	c.members = member.NewRegistry(c.k, &c.pause, cfg.Instance, c.timers.armNode)
	c.own = member.NewMembership(c.members, !cfg.NoHeartbeat)
	c.table = place.NewTable(c.k, &c.pause, c.members, c.own, cfg.Placement)
	return c
}

func (c *Core) due(t Time) bool { return t != 0 && t <= c.k.Now() }

func (c *Core) tell(t Tell) {
	t.At = c.k.Now()
	c.eff.Tells = append(c.eff.Tells, t)
}

func (c *Core) send(kind OpKind, items []Item, leases []*lease) uint64 {
	ttl := c.cfg.TTL
	if kind.Extends() && len(leases) > 0 {
		ttl = c.k.TTLOf(kind, &leases[0].Term)
	}
	op := c.k.Stamp(kind, ttl, items)
	if kind == OpLook {
		op.Deadline = c.k.Now() + Time(max(2*c.cfg.OpTimeout, c.cfg.Discovery))
	}
	c.ops.add(op, leases)
	c.timers.push(timer{at: op.Deadline, kind: timerOp, n: c.k.Seq()})
	c.eff.Ops = append(c.eff.Ops, op)
	return c.k.Seq()
}

func (q *queue) add(kind OpKind, l *lease) {
	l.Queue()
	q.leases[kind] = append(q.leases[kind], l)
}

func (q *queue) empty(kind OpKind) {
	clear(q.leases[kind])
	q.leases[kind] = q.leases[kind][:0]
}
