package core

// Passed are the leases that another owner has passed on to this instance, or may have: an acquisition may find them in its
// name, which otherwise only an earlier attempt of its own could explain. The zero value knows of none.
type Passed struct{ names map[string]bool }

// Add takes note of a lease before it is passed on: if the answer is lost, the next attempt finds what it left.
func (p *Passed) Add(name string) {
	if p.names == nil {
		p.names = map[string]bool{}
	}
	p.names[name] = true
}

// Asked marks what an acquisition about to be sent may find in this instance's name.
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

// Answered forgets what is settled.
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
