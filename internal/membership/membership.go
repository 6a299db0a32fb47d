// Package membership is a worker's part in the fleet of intent workers. A worker signs on, frees the leases of its dead predecessors,
// fetches entries from the bus, beats, and takes over the entries of dead workers. The rules of its sessions are in internal/core/intent.
// The production worker runs this code in goroutines, the virtual engine in virtual time.
package membership

import (
	"context"
	"slices"
	"sync"
	"time"

	core "github.com/leasestorm/leasestorm/internal/core/intent"
)

const (
	fetchMax   = 64          // most entries in one fetch
	fetchBlock = time.Second // longest wait for an entry; Stop ends it sooner
)

// Member is one worker's membership. Set all fields before use. Its methods block and are safe for concurrent use.
type Member struct {
	Registry

	Renew time.Duration // time between renewals of a lease

	Tell  func(core.Event)               // posts an event to the worker's machine
	Query func(func(*core.Machine)) bool // waits until f has read the machine; false: the worker stops, and f may run later

	AwaitCapacity func() bool // waits until the machine can accept more; false: the worker stops
	Kick          func()      // requests a beat and a sweep soon
	Fetched       func(error) // hears of each fetch; may be nil

	server  string   // Beat only: the run of Redis whose records were last reconciled (Bus.Disown)
	more    bool     // Beat only: the last records showed more sessions begun than run
	asking  sync.Map // sessions whose records CheckStop is reading
	retries retries
}

// ask returns what f reads of the machine, or the zero value in a stopping worker.
func ask[T any](m *Member, f func(*core.Machine) T) (none T) {
	var read T
	if m.Query(func(machine *core.Machine) { read = f(machine) }) {
		return read
	}
	return none
}

func (m *Member) running() int { return ask(m, (*core.Machine).Running) }

func (m *Member) takes() bool { return ask(m, (*core.Machine).Takes) }

// unknown returns the sessions that the machine does not have.
func (m *Member) unknown(sessions []string) []string {
	return ask(m, func(machine *core.Machine) []string { return slices.DeleteFunc(sessions, machine.Has) })
}

// Consume fetches entries whenever the machine can accept more, until the worker stops.
func (m *Member) Consume(ctx context.Context) {
	for m.AwaitCapacity() {
		for m.takes() {
			entries, err := m.Bus.Fetch(ctx, fetchMax, fetchBlock)
			if m.Quit() {
				return
			}
			m.fetched(ctx, err)
			if len(entries) > 0 {
				m.Deliver(entries)
				break
			}
		}
	}
}

// failed records a failed request for a session, "" for a fetch, and returns the pause before the next.
func (m *Member) failed(session string) time.Duration {
	return m.retries.fails(session, m.Life, m.Renew)
}

func (m *Member) fetched(ctx context.Context, err error) {
	if m.Fetched != nil {
		m.Fetched(err)
	}
	if err == nil {
		m.retries.succeeds("")
		return
	}
	// The answer may have been lost with its entries. A sweep finds them.
	m.Kick()
	m.Pause(ctx, m.failed(""))
}

// CheckStop handles a notice that a session should stop. It reads the session's record, because any client can publish such a notice. It
// does nothing while that record is being read. If Redis does not answer, the next beat finds the stop.
func (m *Member) CheckStop(ctx context.Context, session string) {
	if _, asking := m.asking.LoadOrStore(session, true); asking {
		return
	}
	defer m.asking.Delete(session)
	if asked, err := m.Bus.StopAsked(ctx, session); err == nil && asked {
		m.stop(session)
	}
}

func (m *Member) stop(session string) { m.Tell(core.Event{Kind: core.EvStop, Session: session}) }

// Beat keeps the worker alive in the registry, reconciles the records of its sessions, and takes over entries of dead workers.
func (m *Member) Beat(ctx context.Context) error {
	before := m.running()
	stops, begun, server, err := m.Bus.Beat(ctx, m.Me.String())
	if err != nil {
		return err
	}
	// Another run of Redis may have older data, in which ended sessions still run here. A delayed write can have the same effect. A
	// surplus in only one beat may be a write in progress, so Disown requires two in a row.
	after, more := m.running(), m.more
	m.more = begun > max(before, after)
	if server != m.server || more && m.more {
		if err := m.Bus.Disown(ctx, m.unknown); err != nil {
			return err
		}
		m.server = server
	}
	for _, id := range stops {
		m.stop(id)
	}
	// More sessions run than records show as begun, so Redis has lost records.
	if begun < min(before, after) {
		m.Tell(core.Event{Kind: core.EvCheck})
	}
	return m.sweep(ctx, BeatInterval(m.Life), m.takes)
}
