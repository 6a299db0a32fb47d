package virtual

import (
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/history"
)

// application is the owner of the sessions: it adds, pauses and removes them.
type application struct {
	*timeline
	servers  *servers
	sessions []session // by creation
	index    map[string]int32
}

// session is the state of a session at the application and the target.
type session struct {
	id       string
	fence    int64         // highest that the target accepted
	slow     time.Duration // minimum serving time of the target
	hang     int
	paused   int
	gone     bool
	heedless bool // its polls ignore their context
}

// wanted reports whether an instance should own the session.
func (s *session) wanted() bool { return !s.gone && s.paused == 0 }

func (a *application) add() {
	var raw uuid.UUID
	binary.BigEndian.PutUint64(raw[:8], a.load.Uint64())
	binary.BigEndian.PutUint64(raw[8:], a.load.Uint64())
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	id := raw.String()
	if a.cfg.Lease != "" {
		id = a.cfg.Lease
	}
	a.servers.master.Lease(id)
	a.emit(history.Event{Kind: history.SessionAdded, Session: id})
}

// named adds the session of a new lease.
func (a *application) named(id string) {
	a.index[id] = int32(len(a.sessions))
	a.sessions = append(a.sessions, session{id: id, heedless: heedless(&a.cfg, id)})
}

func (a *application) pause(i int32, by int) {
	s := &a.sessions[i]
	was := s.paused > 0
	s.paused += by
	is := s.paused > 0
	if is == was {
		return
	}
	a.put()
	kind := history.SessionResumed
	if is {
		kind = history.SessionPaused
	}
	a.emit(history.Event{Kind: kind, Session: s.id})
}

func (a *application) put() {
	ids, paused := make([]string, 0, len(a.sessions)), []string(nil)
	for i := range a.sessions {
		switch s := &a.sessions[i]; {
		case s.wanted():
			ids = append(ids, s.id)
		case !s.gone:
			paused = append(paused, s.id)
		}
	}
	for _, s := range a.servers.all {
		s.SetSessions(core.NewSessions(ids), paused...)
	}
}

func (a *application) restoreSoon() {
	a.after(upTo(a.load, int64(50*time.Millisecond)), a.put)
}

// heedless reports whether a session's polls ignore their context, as a quarter do. Long polls must not, as they outlast the trust
// window.
func heedless(cfg *Config, id string) bool {
	return cfg.Election == nil && cfg.Foreign == nil && !cfg.LongPolls && id != "" && id[len(id)-1] < '4'
}
