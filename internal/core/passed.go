package core

// Passed holds the leases that another owner has, or may have, passed on to this instance. An acquisition may then find a lease in this
// instance's name without an earlier attempt of its own. The zero value is empty. Not safe for concurrent use.
type Passed struct{ names map[string]bool }

// Add adds a lease. Call Add before you pass the lease on, because the answer to that request may be lost.
func (p *Passed) Add(name string) {
	if p.names == nil {
		p.names = map[string]bool{}
	}
	p.names[name] = true
}

// Asked marks the items of op, an acquisition about to be sent, that may be in this instance's name already: they are not Fresh.
func (p *Passed) Asked(op *Op) {
	if len(p.names) == 0 || op.Kind != OpAcquire {
		return
	}
	for i := range op.Items {
		if p.names[op.Items[i].ID] {
			op.Items[i].Fresh = false
		}
	}
}

// Answered removes the leases that the answer to an acquisition settles.
func (p *Passed) Answered(op *Op, a *Answer) {
	if len(p.names) == 0 || op.Kind != OpAcquire || a.Stale {
		return
	}
	for i := range op.Items {
		if i < len(a.Results) && a.Results[i].Outcome != OutUnknown && a.Results[i].Outcome != OutQuarantine {
			delete(p.names, op.Items[i].ID)
		}
	}
}
