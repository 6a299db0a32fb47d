package redis

import (
	"maps"
	"reflect"
	"slices"
)

// Change is a write to the keys. The replicas apply it, and history shows it. Times are in ms of the server's clock.
type Change struct {
	Kind   changeKind
	N      int32    // number of the lease or heartbeat
	Name   string   // of another key, or the verb of a command
	Text   string   // owner, epoch or value
	Words  []string // fields of a hash or of an entry, or arguments of a command
	Expire int64    // of the key
	At     int64    // fence; true time of a heartbeat; the master's clock at a command
}

type changeKind uint8

const (
	Granted changeKind = iota
	Extended
	Deleted
	Fenced
	EpochSet
	Beaten
	BeatGone
	Flushed
	// The following concern keys that leases do not use.
	Stored
	Hashed
	Added // replicas execute its command
	Removed
	ran // a command that replicas execute themselves
)

// Wrote passes a change on, unless it is part of a command that is executed again.
func (r *Server) Wrote(c Change) {
	if !r.again {
		r.Config.Wrote(c)
	}
}

// Apply repeats a master's change at true time t. Its effects are one change.
func (r *Server) Apply(t int64, c Change) {
	switch c.Kind {
	case Granted:
		r.leases[c.N].foreign = false
		r.set(c.N, c.Text, c.Expire)
	case Extended:
		r.leases[c.N].owner = c.Text
		r.extend(c.N, c.Expire)
	case Deleted:
		r.DeleteLease(c.N)
	case Fenced:
		r.setFence(c.N, c.At, c.Expire)
	case EpochSet:
		r.setEpoch(c.Text)
	case Beaten:
		r.beats[c.N].text = c.Text
		r.putBeat(c.At, c.N, c.Expire)
	case BeatGone:
		r.deleteBeat(c.N)
	case Flushed:
		r.DeleteKeys()
	case Stored:
		r.storeText(c.Name, c.Text, c.Expire)
	case Hashed:
		cmdHSet(r, t, append([]string{c.Name}, c.Words...))
	case Removed:
		r.remove(c.Name)
	case ran:
		r.at, r.again = c.At, true
		verbs[c.Name].run(r, t, c.Words)
		r.at, r.again, r.fed = 0, false, nil
		r.Wrote(c)
	}
}

// DeleteKeys keeps the sessions, which belong to the application.
func (r *Server) DeleteKeys() {
	sessions := r.sessionSet
	r.flush()
	r.SetSessions(sessions)
}

func (r *Server) ranAgain(verb string, args []string, now int64) {
	r.Wrote(Change{Kind: ran, Name: verb, Words: slices.Clone(args), At: now})
}

// Present yields the changes that make the present keys, after deleting the expired ones.
func (r *Server) Present(t int64, yield func(Change)) {
	now := r.NowMs(t)
	yield(Change{Kind: EpochSet, Text: r.Epoch})
	for i := range int32(len(r.leases)) {
		r.ExpireLease(i, now)
		if k := &r.leases[i]; k.owner != "" {
			yield(Change{Kind: Granted, N: i, Text: k.owner, Expire: k.expire})
		}
	}
	for i := range int32(len(r.beats)) {
		r.ExpireBeat(i, now)
		if b := &r.beats[i]; b.set {
			yield(Change{Kind: Beaten, N: i, Expire: b.expire})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.others)) {
		switch o := r.other(name, now); {
		case o == nil:
		case o.kind == objString:
			yield(Change{Kind: Stored, Name: name, Text: o.text, Expire: o.expire})
		case o.kind == objHash:
			yield(Change{Kind: Hashed, Name: name, Words: o.hash})
		}
	}
}

// Same reports whether two servers hold the same data.
func (r *Server) Same(o *Server) bool {
	return r.Epoch == o.Epoch && slices.EqualFunc(r.leases, o.leases, func(x, y leaseKey) bool {
		return x.owner == y.owner && x.expire == y.expire && x.fence == y.fence
	}) && reflect.DeepEqual(cloneObjects(r.others), cloneObjects(o.others))
}
