package check

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// injection is the interval of a fault of the plan that was injected, or of an effect of such a fault on servers, as the history shows it.
type injection struct {
	fault.Interval // To is never while it lasts
	node           *node
	session        string
	detectedAt     int64   // when an instance first wrote to Redis after the healing, by which a quarantine has begun; 0: not yet
	did            did     // effect on servers; didPlan: the fault itself
	struck         []*term // terms whose owners trusted them when it began
	anew           bool    // an epoch ended while it lasted
	blocksAcquire  bool    // an instance sees only at its end that Redis' clock jumped, and acquires nothing for a TTL from then on
}

// injected returns an interval that begins at the given time.
func injected(x fault.Interval, at int64) *injection {
	x.From, x.To = at, never
	if x.Has(fault.Instant) {
		x.To = at
	}
	return &injection{Interval: x}
}

// lasts reports whether the fault still lasts, so that the interval has no end yet.
func (inj *injection) lasts() bool { return inj.To == never }

func (inj *injection) String() string {
	name := string(inj.Kind)
	switch {
	case inj.node != nil:
		name += " of " + inj.node.name
	case inj.session != "":
		name += " of session " + inj.session
	}
	return fmt.Sprintf("%s at %s", name, clock(inj.From))
}

func (inj *injection) name() string {
	if inj == nil {
		return ""
	}
	return string(inj.Kind)
}

// event returns the event of the history in which the fault began.
func (inj *injection) event() history.Event {
	e := history.Event{T: inj.From, Kind: history.FaultStart, N: int64(inj.N), Reason: string(inj.Kind)}
	if inj.node != nil {
		e.Node = inj.node.name
	}
	return e
}

// ofRedis reports whether the fault takes Redis away from all instances for a while.
func (inj *injection) ofRedis() bool { return inj.Has(fault.Denies) }

// forgets reports whether Redis returns from the fault with another identity (run_id or marker), so that a quarantine follows.
func (inj *injection) forgets() bool { return inj.Has(fault.Forgets) }

// failsOver reports whether another server, with another clock, becomes the master.
func (inj *injection) failsOver() bool { return inj.Has(fault.FailsOver) }

type did uint8

const (
	didPlan    did = iota // the fault of the plan itself
	didServers            // nothing: the fault of the plan hit servers, and its effects are injections of their own
	didOutage             // no majority is together
	didLife               // an epoch ended
	didStray              // a process was led elsewhere
)
