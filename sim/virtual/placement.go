package virtual

import (
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
)

// placement is shared by all cores, which compute alike. It keeps the last result, because each would compute instances × sessions ranks.
type placement struct {
	core.Placer
	sessions      *core.Sessions
	instances     []uint64
	owner         []int32
	target, quota []int32
}

// Place implements core.Placement.
func (p *placement) Place(s *core.Sessions, instances []uint64, owner []int32) (target, quota []int32) {
	if p.sessions != s || !slices.Equal(p.instances, instances) || !slices.Equal(p.owner, owner) {
		p.target, p.quota = p.Placer.Place(s, instances, owner)
		p.sessions, p.instances, p.owner = s, append(p.instances[:0], instances...), append(p.owner[:0], owner...)
	}
	return p.target, p.quota
}
