package redis

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/leasestorm/leasestorm/internal/core"
)

type keyKind uint8

const (
	keyOther keyKind = iota
	keyLease
	keyFence
	keyBeat
	keyEpoch
)

// Key is a key by its kind and its number or name.
type Key struct {
	kind keyKind
	i    int32
	name string
}

type value struct {
	there   bool
	foreign bool
	text    string
	expire  int64 // ms, or forever
}

// Keys of an election: the leader key, and the prefix of the heartbeats.
const (
	electionLeader = "sovereign:leader"
	ElectionBeats  = "sovereign:heartbeat:"
)

func (r *Server) groupKey() string { return r.Config.EpochKey + ":group" }

func (r *Server) keyAt(name string) Key {
	if r.strange && r.others[name] != nil {
		return Key{kind: keyOther, name: name}
	}
	return r.usual(name)
}

// usual is keyAt for a key of the usual type.
func (r *Server) usual(name string) Key {
	if id, ok := strings.CutPrefix(name, r.Config.LeasePrefix); ok {
		return r.leaseAt(keyLease, id, name)
	}
	if rest, ok := strings.CutPrefix(name, "{"); ok && strings.HasPrefix(rest, r.Config.LeasePrefix) {
		if id, ok := strings.CutSuffix(rest[len(r.Config.LeasePrefix):], "}:fence"); ok {
			return r.leaseAt(keyFence, id, name)
		}
	}
	for _, prefix := range []string{r.Config.NodePrefix, ElectionBeats} {
		if id, ok := strings.CutPrefix(name, prefix); ok {
			return Key{keyBeat, r.beatAt(prefix, id), name}
		}
	}
	switch name {
	case electionLeader:
		return Key{keyLease, r.Lease(name), name}
	case "{" + electionLeader + "}:fence":
		return Key{keyFence, r.Lease(electionLeader), name}
	case r.Config.EpochKey:
		return Key{kind: keyEpoch, name: name}
	}
	return Key{kind: keyOther, name: name}
}

// leaseAt returns the key of a lease or its fence. Some guests put a prefix before the lease's ID.
func (r *Server) leaseAt(kind keyKind, id, name string) Key {
	if !r.Config.Guests {
		return Key{kind, r.Lease(id), name}
	}
	if i, known := r.numbers.leases[id]; known {
		return Key{kind, i, name}
	}
	rest := id[strings.LastIndexByte(id, ':')+1:]
	i, known := r.numbers.leases[rest]
	if kind != keyLease || !known || r.numbers.leaseNames[i] != "" && r.numbers.leaseNames[i] != name {
		return Key{kind: keyOther, name: name}
	}
	if r.numbers.leaseNames == nil {
		r.numbers.leaseNames = map[int32]string{}
	}
	r.numbers.leaseNames[i] = name
	return Key{kind, i, name}
}

// get reads a key, after deleting it if it has expired.
func (r *Server) get(k Key, now int64) value {
	switch k.kind {
	case keyLease:
		r.expireLease(k.i, now)
		l := &r.leases[k.i]
		return value{l.there(), l.foreign, l.owner, l.expire}
	case keyFence:
		r.expireFence(k.i, now)
		l := &r.leases[k.i]
		text := l.fenceText
		if l.fence != 0 {
			text = strconv.FormatInt(l.fence, 10)
		}
		return value{l.fenced(), l.fenceForeign, text, l.fenceExpire}
	case keyBeat:
		r.expireBeat(k.i, now)
		b := &r.beats[k.i]
		return value{b.set, false, cmp.Or(b.text, "1"), b.expire}
	case keyEpoch:
		return value{r.Epoch != "", false, r.Epoch, Forever}
	}
	o := r.other(k.name, now)
	if o == nil {
		return value{}
	}
	return value{true, o.kind != objString, o.text, o.expire}
}

func (r *Server) put(t int64, k Key, text string, expire int64) {
	now := r.NowMs(t)
	switch k.kind {
	case keyLease:
		r.expireLease(k.i, now)
		r.leases[k.i].foreign = false
		r.set(k.i, text, expire)
	case keyFence:
		l := &r.leases[k.i]
		l.fenceForeign, l.fence, l.fenceText, l.fenceExpire = false, 0, "", expire
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && n < 1<<53 && strconv.FormatInt(n, 10) == text {
			r.setFence(k.i, n, expire)
		} else {
			l.fenceText = text
			r.touchFence(k.i)
		}
	case keyBeat:
		r.expireBeat(k.i, now)
		r.beats[k.i].text = cmp.Or(r.staleBeats[k.i], text)
		r.putBeat(t, k.i, expire)
	case keyEpoch:
		r.setEpoch(text)
	case keyOther:
		if r.strange && r.others[k.name] != nil {
			r.remove(k.name)
			r.put(t, r.usual(k.name), text, expire)
			return
		}
		r.storeText(k.name, text, expire)
	}
}

func (r *Server) until(t int64, k Key, expire int64) {
	switch k.kind {
	case keyLease:
		r.extend(k.i, expire)
	case keyFence:
		r.leases[k.i].fenceExpire = expire
		r.touchFence(k.i)
	case keyBeat:
		r.putBeat(t, k.i, expire)
	case keyEpoch:
		// The model's epoch has no end.
	case keyOther:
		o := r.others[k.name]
		o.expire = expire
		if o.kind == objString {
			r.Wrote(Change{Kind: Stored, Name: k.name, Text: o.text, Expire: expire})
		}
		r.touch(k.name)
	}
}

func (r *Server) del(k Key) {
	switch k.kind {
	case keyLease:
		r.DeleteLease(k.i)
	case keyFence:
		r.deleteFence(k.i)
	case keyBeat:
		r.deleteBeat(k.i)
	case keyEpoch:
		r.Epoch = ""
		r.touch(k.name)
	case keyOther:
		r.remove(k.name)
	}
}

// find returns an object or nil. wrong reports an object of another kind.
func (r *Server) find(t int64, name string, kind objectKind) (o *object, wrong bool) {
	k := r.keyAt(name)
	if k.kind != keyOther {
		return nil, r.get(k, r.NowMs(t)).there
	}
	if o = r.other(name, r.NowMs(t)); o == nil {
		return nil, false
	}
	return o, o.kind != kind
}

// create stores a new object, also under the name of a lease.
func (r *Server) create(name string, o *object) *object {
	r.strange = r.strange || r.usual(name).kind != keyOther
	return r.store(name, o)
}

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
