package redis

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
