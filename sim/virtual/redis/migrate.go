package redis

import (
	"maps"
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
)

// KeysOf returns the keys of an op's script.
func (r *Server) KeysOf(op *core.Op) []string {
	asked := *op
	if op.Kind == core.OpLook {
		asked.Kind, asked.Items = core.OpObserve, nil
		for _, id := range r.sessionSet.IDs {
			asked.Items = append(asked.Items, core.Item{ID: id})
		}
	}
	return r.wire.Call(&asked).Keys
}

// CountKeys returns how many of the keys exist.
func (r *Server) CountKeys(t int64, names []string) (n int) {
	for _, name := range names {
		if r.get(r.keyAt(name), r.NowMs(t)).there {
			n++
		}
	}
	return n
}

// Migrate moves a key to another server.
func (r *Server) Migrate(t int64, k Key, to *Server) {
	v := r.get(k, r.NowMs(t))
	if v.expire != Forever {
		v.expire += to.NowMs(t) - r.NowMs(t)
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

// Keys returns the keys that exist.
func (r *Server) Keys(t int64) []Key {
	now := r.NowMs(t)
	var keys []Key
	add := func(k Key) {
		if r.get(k, now).there {
			keys = append(keys, k)
		}
	}
	add(Key{kind: keyEpoch})
	for i := range int32(len(r.leases)) {
		add(Key{kind: keyLease, i: i})
		add(Key{kind: keyFence, i: i})
	}
	for i := range int32(len(r.beats)) {
		add(Key{kind: keyBeat, i: i})
	}
	for _, name := range slices.Sorted(maps.Keys(r.others)) {
		add(Key{kind: keyOther, name: name})
	}
	return keys
}
