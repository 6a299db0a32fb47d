package virtual

import (
	"maps"
	"reflect"
	"slices"
)

// change is a write to the keys. The replicas apply it, and history shows it. Times are in ms of the server's clock.
type change struct {
	kind   changeKind
	n      int32    // number of the lease or heartbeat
	name   string   // of another key, or the verb of a command
	text   string   // owner, epoch or value
	words  []string // fields of a hash or of an entry, or arguments of a command
	expire int64    // of the key
	at     int64    // fence; true time of a heartbeat; the master's clock at a command
}

type changeKind uint8

const (
	granted changeKind = iota
	extended
	deleted
	fenced
	epochSet
	beaten
	beatGone
	flushed
	// The following concern keys that leases do not use.
	stored
	hashed
	added // replicas execute its command
	removed
	ran // a command that replicas execute themselves
)

// wrote passes a change on, unless it is part of a command that is executed again.
func (r *redis) wrote(c change) {
	if !r.again {
		r.cfg.Wrote(c)
	}
}

// apply repeats a master's change at true time t. Its effects are one change.
func (r *redis) apply(t int64, c change) {
	switch c.kind {
	case granted:
		r.leases[c.n].foreign = false
		r.set(c.n, c.text, c.expire)
	case extended:
		r.leases[c.n].owner = c.text
		r.extend(c.n, c.expire)
	case deleted:
		r.deleteLease(c.n)
	case fenced:
		r.setFence(c.n, c.at, c.expire)
	case epochSet:
		r.setEpoch(c.text)
	case beaten:
		r.beats[c.n].text = c.text
		r.putBeat(c.at, c.n, c.expire)
	case beatGone:
		r.deleteBeat(c.n)
	case flushed:
		r.flushKeys()
	case stored:
		r.storeText(c.name, c.text, c.expire)
	case hashed:
		cmdHSet(r, t, append([]string{c.name}, c.words...))
	case removed:
		r.remove(c.name)
	case ran:
		r.at, r.again = c.at, true
		verbs[c.name].run(r, t, c.words)
		r.at, r.again, r.fed = 0, false, nil
		r.wrote(c)
	}
}

// flushKeys keeps the sessions, which belong to the application.
func (r *redis) flushKeys() {
	sessions := r.sessionSet
	r.flush()
	r.setSessions(sessions)
}

func (r *redis) ranAgain(verb string, args []string, now int64) {
	r.wrote(change{kind: ran, name: verb, words: slices.Clone(args), at: now})
}

// present yields the changes that make the present keys, after deleting the expired ones.
func (r *redis) present(t int64, yield func(change)) {
	now := r.nowMs(t)
	yield(change{kind: epochSet, text: r.epoch})
	for i := range int32(len(r.leases)) {
		r.expireLease(i, now)
		if k := &r.leases[i]; k.owner != "" {
			yield(change{kind: granted, n: i, text: k.owner, expire: k.expire})
		}
	}
	for i := range int32(len(r.beats)) {
		r.expireBeat(i, now)
		if b := &r.beats[i]; b.set {
			yield(change{kind: beaten, n: i, expire: b.expire})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.others)) {
		switch o := r.other(name, now); {
		case o == nil:
		case o.kind == objString:
			yield(change{kind: stored, name: name, text: o.text, expire: o.expire})
		case o.kind == objHash:
			yield(change{kind: hashed, name: name, words: o.hash})
		}
	}
}

// same reports whether two servers hold the same data.
func (r *redis) same(o *redis) bool {
	return r.epoch == o.epoch && slices.EqualFunc(r.leases, o.leases, func(x, y leaseKey) bool {
		return x.owner == y.owner && x.expire == y.expire && x.fence == y.fence
	}) && reflect.DeepEqual(cloneObjects(r.others), cloneObjects(o.others))
}
