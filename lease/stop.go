package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// lastWait is how long Stop waits, after the drain, for functions of the caller's that nobody can end: Config.Sessions, Config.Notify,
// and the writer of Config.Logger.
const lastWait = time.Second

func (s *shell) end(begun bool) error {
	if !begun {
		s.state.Store(int32(stateStopped))
		s.hub.close()
		s.cancel()
		return s.store.Close()
	}
	s.post(s.drain)
	timer := time.NewTimer(s.cfg.DrainTimeout)
	defer timer.Stop()
	select {
	case <-s.drained:
	case <-timer.C:
	}
	last, cancel := context.WithTimeout(context.Background(), lastWait)
	defer cancel()
	var err error
	if left := s.leave(last); left != "" {
		err = s.leftBehind(left)
	}
	s.cancel()
	for _, l := range s.lanes {
		l.close()
	}
	s.inbox.close()
	err = cmp.Or(err, s.store.Close()) // ends the requests in flight, so Stop does not wait for a silent Redis
	stuck := s.ended(last)
	s.state.Store(int32(stateStopped))
	s.hub.close()
	return errors.Join(err, stuck, s.log.Flushed(last, errStuck))
}

// leave gives up the remaining leases and releases, and names them.
func (s *shell) leave(last context.Context) string {
	unconfirmed := make(chan string, 1)
	s.post(func() { unconfirmed <- s.finish() })
	select {
	case left := <-unconfirmed:
		return left
	case <-last.Done():
		return "what it held" // the loop is stuck, so nothing more is known
	}
}

// ended waits for the loop and for the requests in flight, whose connections are closed.
func (s *shell) ended(last context.Context) error {
	all := make(chan struct{})
	go func() {
		s.workers.Wait()
		close(all)
	}()
	select {
	case <-all:
		return nil
	case <-last.Done():
	}
	what, since := s.log.Calls.Late(time.Now().Add(TTLMax)) // regardless of the time that a call may take
	return fmt.Errorf("%w: %s, since %s", errStuck, what, stamp(since))
}

// drain begins the stop. Runs in the loop.
func (s *shell) drain() {
	s.draining = true
	s.state.Store(int32(stateDraining))
	for _, w := range s.waiters.Close() {
		w.answer(nil, ErrStopped)
	}
	s.step(core.Event{Kind: core.EvDrain})
}

// finish gives up the remaining leases and releases, and names them, "" for none. A heartbeat that may live on blocks nobody. Runs in the
// loop, last.
func (s *shell) finish() string {
	select {
	case <-s.drained:
		return ""
	default:
	}
	left := ""
	if s.core.Unreleased() {
		left = unconfirmedReleases
	}
	if holds := s.table.holds(); len(holds) > 0 {
		left = fmt.Sprintf("work that has not ended under %d leases, %q first", len(holds), holds[0].name)
		for _, h := range holds {
			s.step(h.stuck(core.EvAbandon))
		}
	}
	for _, name := range s.releases.Left() {
		s.resolveRelease(name, s.failure(core.OpRelease).noResult(core.OpRelease, "release", name, "the instance has stopped"))
	}
	return left
}
