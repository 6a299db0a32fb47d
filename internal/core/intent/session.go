package intent

import "github.com/leasestorm/leasestorm/internal/core"

type phase uint8

const (
	queued    phase = iota // waits for its turn
	asleep                 // waits for its timer, then goes on with next
	service                // an attempt for the service lease is under way
	tuner                  // an attempt for a slot is under way
	starting               // STARTING is being written
	launching              // the pipeline is being started
	up                     // the pipeline runs and RUNNING is being written
	running                // the pipeline runs and RUNNING has been written
	halting                // the pipeline was asked to end, or will be when it has started
	releasing              // leases are being given back
	ending                 // ENDED is being written
	stranded               // ENDED was written and the pipeline has not returned
)

type after uint8

const (
	writeEnded after = iota
	startOver        // start again
	leaveIt          // write nothing: another worker has the session, or should start it because this one stops
	buryIt           // the session has no record: make its entry a dead letter
)

type term struct {
	name  string
	fence int64 // 0: not held
	until core.Time
}

// pair is the leases of a session.
type pair struct {
	service, tuner term
	fence, tfence  int64 // of the last terms, for writes
}

func (p *pair) terms() [2]*term { return [2]*term{&p.service, &p.tuner} }

// until returns when the trust in either lease ends unless it is renewed.
func (p *pair) until() core.Time { return min(p.service.until, p.tuner.until) }

type session struct {
	entry Entry
	phase phase
	next  phase // asleep: the next phase
	gen   uint32

	pair
	slot  int       // of tuner, or being tried; -1 none
	began core.Time // when it began to try slots

	asked  bool  // a write is under way
	sent   State // of the last write
	acked  bool  // its entry is acknowledged
	live   bool  // its pipeline was launched and has not returned, or may still start
	waited bool  // it has waited for an earlier worker's lease to expire
	awaits bool  // it waits for the results of other sessions' slots
	stop   bool  // a stop was requested
	lost   bool  // a lease was lost
	turn   bool  // it counts as being started
	after  after
	reason Reason // why it ends, once that is known
	text   string
}

// disown records that this worker must not write the session's state any more, if w shows that.
func (s *session) disown(w Wrote) {
	switch w {
	case WroteOver:
		s.after = leaveIt
	case WroteMissing:
		s.after = buryIt
	}
}
