package redis

import (
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/internal/core"
)

// scan is SCAN of the heartbeats. The slice is valid until the next call.
func (d *Data) scan(now int64) []int32 {
	for n := len(d.live) - 1; n >= 0; n-- {
		d.ExpireBeat(d.live[n], now)
	}
	// SCAN has no order. Sorted names do not depend on how the scripts run.
	d.scanned = append(d.scanned[:0], d.live...)
	slices.SortFunc(d.scanned, func(a, b int32) int { return strings.Compare(d.beats[a].id, d.beats[b].id) })
	return d.scanned
}

// ownersAt reads sessions and owners. Discoveries share the result until it changes or a lease expires.
func (d *Data) ownersAt(t int64) *core.Look {
	if now := d.NowMs(t); d.look == nil || d.lookVersion != d.version || now > d.lookUntil {
		d.readOwners(now)
	}
	return d.look
}

// readOwners reads in memory order. It first deletes expired leases in session order, as the scripts do.
func (d *Data) readOwners(now int64) {
	owners := make([]string, len(d.sessionSet.IDs))
	until, over := Forever, false
	for i, n := range d.sessionAt {
		if k := &d.leases[i]; n >= 0 {
			over = over || now > k.expire && k.there()
			if k.owner != "" {
				owners[n] = k.owner
				until = min(until, k.expire)
			}
		}
	}
	if over {
		for _, i := range d.sessionIdx {
			d.ExpireLease(i, now)
		}
		d.readOwners(now)
		return
	}
	d.look = &core.Look{Sessions: d.sessionSet, Owners: owners}
	d.lookVersion, d.lookUntil = d.version, until
}
