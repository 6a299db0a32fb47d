package core

import (
	"github.com/leasestorm/leasestorm/internal/member"
	"github.com/leasestorm/leasestorm/internal/pause"
	"github.com/leasestorm/leasestorm/internal/place"
	"github.com/leasestorm/leasestorm/internal/term"
)

// base is what all parts of a core use.
type base struct {
	cfg     Config
	pause   pause.Config
	k       *term.Kernel
	tells   tells
	timers  timerHeap
	paces   *paces
	req     *requests
	members *member.Registry
	own     *member.Membership // this instance's part among the members
	table   *place.Table
}

func newBase(cfg Config) *base {
	b := &base{cfg: cfg, pause: cfg.pauses(), k: term.New(cfg.terms())}
	b.paces = &paces{k: b.k, cfg: &b.pause, tells: &b.tells}
	b.req = &requests{k: b.k, cfg: &b.cfg, timers: &b.timers, paces: b.paces}
	b.members = member.NewRegistry(b.k, &b.pause, cfg.Instance, func(i int32, gen uint32, at Time) {
		b.timers.Add(at, timer{kind: timerNode, gen: gen, n: uint64(i)})
	})
	b.own = member.NewMembership(b.members, !cfg.NoHeartbeat)
	b.table = place.NewTable(b.k, &b.pause, b.members, b.own, cfg.Placement)
	return b
}

func (b *base) due(t Time) bool { return t != 0 && t <= b.k.Now() }
