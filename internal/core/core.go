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
	tells *tells

	drained bool

	next      Time // as of the last step
	timers    *timerHeap
	nextRenew Time // when all held leases are renewed and the heartbeat is set
	nextProbe Time // when to probe: in a silence, or to find a new epoch (seek)
	nextHeard Time // when observeWanted runs, if resubscriptions were too frequent

	leases    map[string]*lease // every lease this instance holds, wants or watches; ranged over only in sorted order
	held      []*lease          // held leases, in an arbitrary but reproducible order
	releasing int               // leases whose release is not confirmed
	acquiring int               // leases whose acquisition is not answered

	silence silence
	paces   *paces
	req     *requests

	members *member.Registry
	own     *member.Membership // this instance's part among the members
	table   *place.Table
}

// New returns the core of one instance. cfg's zero fields take their defaults. The caller must have checked that the durations are
// consistent.
func New(cfg Config) *Core {
	cfg = cfg.WithDefaults()
	c := &Core{
		cfg:    cfg,
		k:      term.New(cfg.terms()),
		pause:  cfg.pauses(),
		timers: &timerHeap{},
		leases: map[string]*lease{},
	}
	c.tells = &tells{k: c.k}
	c.paces = &paces{k: c.k, cfg: &c.pause, tells: c.tells}
	c.req = &requests{k: c.k, cfg: &c.cfg, timers: c.timers, paces: c.paces}
	c.members = member.NewRegistry(c.k, &c.pause, cfg.Instance, c.timers.armNode)
	c.own = member.NewMembership(c.members, !cfg.NoHeartbeat)
	c.table = place.NewTable(c.k, &c.pause, c.members, c.own, cfg.Placement)
	return c
}

func (c *Core) due(t Time) bool { return t != 0 && t <= c.k.Now() }
