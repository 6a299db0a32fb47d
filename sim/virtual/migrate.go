package virtual

import (
	"maps"
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
)

// keysOf returns the keys of an op's script.
func (r *redis) keysOf(op *core.Op) []string {
	asked := *op
	if op.Kind == core.OpLook {
		asked.Kind, asked.Items = core.OpObserve, nil
		for _, id := range r.sessionSet.IDs {
			asked.Items = append(asked.Items, core.Item{ID: id})
		}
	}
	return r.wire.Call(&asked).Keys
}

// count returns how many of the keys exist.
func (r *redis) count(t int64, names []string) (n int) {
	for _, name := range names {
		if r.get(r.keyAt(name), r.nowMs(t)).there {
			n++
		}
	}
	return n
}

// migrate moves a key to another server.
func (r *redis) migrate(t int64, k key, to *redis) {
	v := r.get(k, r.nowMs(t))
	if v.expire != forever {
		v.expire += to.nowMs(t) - r.nowMs(t)
	}
	if o := r.others[k.name]; k.kind == keyOther && o.kind == objHash {
		cmdHSet(to, t, append([]string{k.name}, o.hash...))
	} else {
		to.put(t, k, v.text, v.expire)
	}
	switch k.kind {
	case keyEpoch:
		r.setEpoch("")
	case keyFence:
		r.setFence(k.i, 0, 0)
	default:
		r.del(k)
	}
}

// keys returns the keys that exist.
func (r *redis) keys(t int64) []key {
	now := r.nowMs(t)
	var keys []key
	add := func(k key) {
		if r.get(k, now).there {
			keys = append(keys, k)
		}
	}
	add(key{kind: keyEpoch})
	for i := range int32(len(r.leases)) {
		add(key{kind: keyLease, i: i})
		add(key{kind: keyFence, i: i})
	}
	for i := range int32(len(r.beats)) {
		add(key{kind: keyBeat, i: i})
	}
	for _, name := range slices.Sorted(maps.Keys(r.others)) {
		add(key{kind: keyOther, name: name})
	}
	return keys
}
