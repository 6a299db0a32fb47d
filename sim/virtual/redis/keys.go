package redis

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
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

func (d *Data) keyAt(name string) Key {
	if d.strange && d.others[name] != nil {
		return Key{kind: keyOther, name: name}
	}
	return d.usual(name)
}

// usual is keyAt for a key of the usual type.
func (d *Data) usual(name string) Key {
	if id, ok := strings.CutPrefix(name, d.cfg.LeasePrefix); ok {
		return d.leaseAt(keyLease, id, name)
	}
	if rest, ok := strings.CutPrefix(name, "{"); ok && strings.HasPrefix(rest, d.cfg.LeasePrefix) {
		if id, ok := strings.CutSuffix(rest[len(d.cfg.LeasePrefix):], "}:fence"); ok {
			return d.leaseAt(keyFence, id, name)
		}
	}
	for _, prefix := range []string{d.cfg.NodePrefix, ElectionBeats} {
		if id, ok := strings.CutPrefix(name, prefix); ok {
			return Key{keyBeat, d.beatAt(prefix, id), name}
		}
	}
	switch name {
	case electionLeader:
		return Key{keyLease, d.Lease(name), name}
	case "{" + electionLeader + "}:fence":
		return Key{keyFence, d.Lease(electionLeader), name}
	case d.cfg.EpochKey:
		return Key{kind: keyEpoch, name: name}
	}
	return Key{kind: keyOther, name: name}
}

// leaseAt returns the key of a lease or its fence. Some guests put a prefix before the lease's ID.
func (d *Data) leaseAt(kind keyKind, id, name string) Key {
	if !d.cfg.Guests {
		return Key{kind, d.Lease(id), name}
	}
	if i, known := d.numbers.leases[id]; known {
		return Key{kind, i, name}
	}
	rest := id[strings.LastIndexByte(id, ':')+1:]
	i, known := d.numbers.leases[rest]
	if kind != keyLease || !known || d.numbers.leaseNames[i] != "" && d.numbers.leaseNames[i] != name {
		return Key{kind: keyOther, name: name}
	}
	if d.numbers.leaseNames == nil {
		d.numbers.leaseNames = map[int32]string{}
	}
	d.numbers.leaseNames[i] = name
	return Key{kind, i, name}
}

// get reads a key, after deleting it if it has expired.
func (d *Data) get(k Key, now int64) value {
	switch k.kind {
	case keyLease:
		d.expireLease(k.i, now)
		l := &d.leases[k.i]
		return value{l.there(), l.foreign, l.owner, l.expire}
	case keyFence:
		d.expireFence(k.i, now)
		l := &d.leases[k.i]
		text := l.fenceText
		if l.fence != 0 {
			text = strconv.FormatInt(l.fence, 10)
		}
		return value{l.fenced(), l.fenceForeign, text, l.fenceExpire}
	case keyBeat:
		d.expireBeat(k.i, now)
		b := &d.beats[k.i]
		return value{b.set, false, cmp.Or(b.text, "1"), b.expire}
	case keyEpoch:
		return value{d.Epoch != "", false, d.Epoch, Forever}
	}
	o := d.other(k.name, now)
	if o == nil {
		return value{}
	}
	return value{true, o.kind != objString, o.text, o.expire}
}

func (d *Data) put(t int64, k Key, text string, expire int64) {
	now := d.NowMs(t)
	switch k.kind {
	case keyLease:
		d.expireLease(k.i, now)
		d.leases[k.i].foreign = false
		d.set(k.i, text, expire)
	case keyFence:
		l := &d.leases[k.i]
		l.fenceForeign, l.fence, l.fenceText, l.fenceExpire = false, 0, "", expire
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && n < 1<<53 && strconv.FormatInt(n, 10) == text {
			d.setFence(k.i, n, expire)
		} else {
			l.fenceText = text
			d.touchFence(k.i)
		}
	case keyBeat:
		d.expireBeat(k.i, now)
		d.beats[k.i].text = cmp.Or(d.staleBeats[k.i], text)
		d.putBeat(t, k.i, expire)
	case keyEpoch:
		d.setEpoch(text)
	case keyOther:
		if d.strange && d.others[k.name] != nil {
			d.remove(k.name)
			d.put(t, d.usual(k.name), text, expire)
			return
		}
		d.storeText(k.name, text, expire)
	}
}

func (d *Data) until(t int64, k Key, expire int64) {
	switch k.kind {
	case keyLease:
		d.extend(k.i, expire)
	case keyFence:
		d.leases[k.i].fenceExpire = expire
		d.touchFence(k.i)
	case keyBeat:
		d.putBeat(t, k.i, expire)
	case keyEpoch:
		// The model's epoch has no end.
	case keyOther:
		o := d.others[k.name]
		o.expire = expire
		if o.kind == objString {
			d.Wrote(Change{Kind: Stored, Name: k.name, Text: o.text, Expire: expire})
		}
		d.touch(k.name)
	}
}

func (d *Data) del(k Key) {
	switch k.kind {
	case keyLease:
		d.DeleteLease(k.i)
	case keyFence:
		d.deleteFence(k.i)
	case keyBeat:
		d.deleteBeat(k.i)
	case keyEpoch:
		d.Epoch = ""
		d.touch(k.name)
	case keyOther:
		d.remove(k.name)
	}
}

// find returns an object or nil. wrong reports an object of another kind.
func (d *Data) find(t int64, name string, kind objectKind) (o *object, wrong bool) {
	k := d.keyAt(name)
	if k.kind != keyOther {
		return nil, d.get(k, d.NowMs(t)).there
	}
	if o = d.other(name, d.NowMs(t)); o == nil {
		return nil, false
	}
	return o, o.kind != kind
}

// create stores a new object, also under the name of a lease.
func (d *Data) create(name string, o *object) *object {
	d.strange = d.strange || d.usual(name).kind != keyOther
	return d.store(name, o)
}

// CountKeys returns how many of the keys exist.
func (d *Data) CountKeys(t int64, names []string) (n int) {
	for _, name := range names {
		if d.get(d.keyAt(name), d.NowMs(t)).there {
			n++
		}
	}
	return n
}

// Keys returns the keys that exist.
func (d *Data) Keys(t int64) []Key {
	now := d.NowMs(t)
	var keys []Key
	add := func(k Key) {
		if d.get(k, now).there {
			keys = append(keys, k)
		}
	}
	add(Key{kind: keyEpoch})
	for i := range int32(len(d.leases)) {
		add(Key{kind: keyLease, i: i})
		add(Key{kind: keyFence, i: i})
	}
	for i := range int32(len(d.beats)) {
		add(Key{kind: keyBeat, i: i})
	}
	for _, name := range slices.Sorted(maps.Keys(d.others)) {
		add(Key{kind: keyOther, name: name})
	}
	return keys
}
