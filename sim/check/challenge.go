package check

import "github.com/leasestorm/leasestorm/sim/fault"

// Challenge counts how often one kind of fault, or of change, challenged owners of leases. Without challenges, G1 and G2 prove nothing.
type Challenge struct {
	By        string `json:"by"`        // a kind of fault, or handover, exit, lapse
	Struck    int    `json:"struck"`    // leases that their owner trusted when the fault began
	Outlasted int    `json:"outlasted"` // of these, leases whose trust ended during the fault
	Taken     int    `json:"taken"`     // leases that another instance acquired next, because of the fault
}

// challenges counts the effects of faults and of the fleet's own changes on leases.
type challenges struct {
	*run
	fleet *fleet
	tally map[string]*Challenge
	total int
}

func (c *challenges) by(name string) *Challenge {
	x := c.tally[name]
	if x == nil {
		x = &Challenge{By: name}
		c.tally[name] = x
	}
	return x
}

// Effects that challenge owners: effects that end an owner's trust at once, or remove the lease on which that trust rests; effects
// that may last longer than the trust; and a clean stop.
const (
	ends        = fault.Kills | fault.Deletes | fault.StepsClock
	outlasting  = fault.Silences | fault.Denies
	challenging = ends | outlasting | fault.Stops
)

func (c *challenges) injected(inj *injection) {
	if !inj.Kind.Has(challenging) {
		return
	}
	x := c.by(string(inj.Kind))
	for _, s := range c.fleet.sessions {
		for _, t := range s.terms {
			if t.believes(c.now) && inj.hits(t) {
				x.Struck++
				t.injections = append(t.injections, inj)
				inj.struck = append(inj.struck, t)
			}
		}
	}
}

// hits reports whether the fault hits the owner of the term, or its lease.
func (inj *injection) hits(t *term) bool {
	if inj.Has(fault.Deletes) {
		return inj.session == t.session.id
	}
	return inj.ofRedis() || inj.node == t.inst.node || inj.Kind.Scope() == fault.ScopeNone
}

// trusted returns until when the owner may trust its lease: at most a TTL after its last confirmation, and no longer than its window.
func (c *challenges) trusted(t *term) int64 {
	end := t.confirmedAt + int64(c.TTL)
	if t.until != 0 {
		end = min(end, t.until)
	}
	return end
}

// outlasted reports whether the trust in the term ended during the fault. It is false for an owner that released the lease or was killed.
func (c *challenges) outlasted(t *term, inj *injection) bool {
	return c.trusted(t) <= min(inj.To, c.now) && (!t.over || t.how == endLost)
}

func (c *challenges) healed(inj *injection) {
	for _, t := range inj.struck {
		if c.outlasted(t, inj) {
			c.by(string(inj.Kind)).Outlasted++
		}
	}
}

// taken returns the last challenge of the owner from which the new term takes the lease; "" if there was none.
func (c *challenges) taken(t *term) (by string) {
	last := t.session.last
	if last == nil || last.inst == t.inst {
		return ""
	}
	gave := last.over && last.how == endReleased
	for _, inj := range last.injections {
		if stops := inj.Kind.Has(fault.Stops); gave == stops &&
			(gave || inj.lasts() || inj.Kind.Has(ends|fault.Forgets) || c.outlasted(last, inj)) {
			by = string(inj.Kind)
			c.by(by).Taken++
		}
	}
	if by == "" {
		switch {
		case gave: // its owner released it
			by = "handover"
		case last.over && last.how == endExited: // its process ended, but no fault killed it
			by = "exit"
		case c.trusted(last) <= c.now: // its trust ended unrenewed, as a slow network may cause
			by = "lapse"
		default:
			return "" // unknown: the owner may still believe
		}
		x := c.by(by)
		x.Struck++
		x.Taken++
	}
	c.total++
	return by
}

func (c *challenges) list() (all []Challenge) {
	for _, name := range sortedKeys(c.tally) {
		all = append(all, *c.tally[name])
	}
	return all
}

// unchallenged explains why the run does not exercise a guarantee about owners.
const unchallenged = "no lease was challenged: no fault outlasted the trust of an owner whose lease another took over then, no owner " +
	"was killed, and none handed a lease over"
