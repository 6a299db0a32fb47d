package redis

// transaction is the state of MULTI and WATCH.
type transaction struct {
	multi   bool
	doomed  bool // a command was refused
	queue   [][]string
	watched []string
	changed bool // a watched key has changed
}

func (f *Front) begin([]string) Reply {
	if f.multi {
		return Refusal("ERR MULTI calls can not be nested")
	}
	f.multi = true
	return status("OK")
}

func (f *Front) discard([]string) Reply {
	if !f.multi {
		return Refusal("ERR DISCARD without MULTI")
	}
	f.endTransaction()
	return status("OK")
}

func (f *Front) endTransaction() { f.transaction = transaction{} }

func (f *Front) exec([]string) Reply {
	if !f.multi {
		return Refusal("ERR EXEC without MULTI")
	}
	f.server.CountKeys(f.t, f.watched) // finds those that have expired
	queue, doomed, changed := f.queue, f.doomed, f.changed
	f.endTransaction()
	switch {
	case doomed:
		return Refusal("EXECABORT Transaction discarded because of previous errors.")
	case changed:
		return noList{}
	}
	for _, args := range queue {
		name := upper(args[0])
		if v := verbs[name]; v.writes {
			if why := f.server.refused(name, v, nil); why != "" {
				return f.abort(why)
			}
		}
	}
	out := make([]Reply, len(queue))
	for i, args := range queue {
		out[i] = f.run(upper(args[0]), args)
		if w, blocks := out[i].(WaitFor); blocks {
			out[i] = w.given()
		}
	}
	return out
}

func (f *Front) abort(why string) Reply {
	f.endTransaction()
	return Refusal("EXECABORT Transaction discarded because of: " + why)
}

func (f *Front) watch(names []string) Reply {
	if f.multi {
		return Refusal("ERR WATCH inside MULTI is not allowed")
	}
	f.server.CountKeys(f.t, names) // so that an expired key does not change later
	f.watched = append(f.watched, names...)
	return status("OK")
}

func (f *Front) unwatch([]string) Reply {
	f.watched, f.changed = nil, false
	return status("OK")
}

// given is the reply of a command that may not wait.
func (w WaitFor) given() Reply {
	if w.Key == "" {
		return int64(0)
	}
	return noList{}
}
