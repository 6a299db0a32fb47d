package lease

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// looks is what the looks of this instance have met. A look asks for more than any other request, so it may fail for good where all
// else succeeds: then nothing that is free is ever found. What trouble knows of it is over with the next answer to something else.
type looks struct {
	failing atomic.Pointer[failing] // nil: the last one was answered
}

// failing are looks that failed one after the other.
type failing struct {
	looks int
	since time.Time // when the first of them failed
	err   error
	late  bool // the last one had no time left: Config.Sessions went on beyond its context
}

// failingMany is from how many on they are no accident.
const failingMany = 2

// note takes the outcome of a look. Only the worker of the look lane calls it.
func (l *looks) note(a *core.Answer, late bool) {
	if a.Failure == core.FailNone {
		l.failing.Store(nil)
		return
	}
	f := failing{since: time.Now()}
	if last := l.failing.Load(); last != nil {
		f = *last
	}
	f.looks++
	f.err, f.late = a.Err, late
	l.failing.Store(&f)
}

// health returns h, or why nothing can be found.
func (l *looks) health(h Health) (Health, bool) {
	f := l.failing.Load()
	if f == nil || f.looks < failingMany {
		return h, false
	}
	if f.late {
		return h.as(HealthSessionsRefused, "Config.Sessions leaves no time to look at leases and heartbeats since "+stamp(f.since)), true
	}
	state, why := HealthSilent, ""
	if isRefused(f.err) {
		state = HealthRefused
	}
	if f.err != nil {
		why = ": " + strings.TrimPrefix(f.err.Error(), ErrRefused.Error()+": ")
	}
	h.Since, h.Err = f.since, f.err
	return h.as(state, "leases and heartbeats cannot be looked at since "+stamp(f.since)+why), true
}
