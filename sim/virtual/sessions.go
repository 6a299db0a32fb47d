package virtual

import (
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/history"
)

// heedless reports whether a session's polls ignore their context, as a quarter do. Long polls must not, as they outlast the trust
// window.
func heedless(cfg *Config, id string) bool {
	return cfg.Election == nil && cfg.Foreign == nil && !cfg.LongPolls && id != "" && id[len(id)-1] < '4'
}

func (w *world) addSession() {
	var raw uuid.UUID
	binary.BigEndian.PutUint64(raw[:8], w.load.Uint64())
	binary.BigEndian.PutUint64(raw[8:], w.load.Uint64())
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	id := raw.String()
	if w.cfg.Lease != "" {
		id = w.cfg.Lease
	}
	w.server.Lease(id)
	w.emit(history.Event{Kind: history.SessionAdded, Session: id})
}

func (w *world) pause(i int32, by int) {
	s := &w.sess[i]
	was := s.paused > 0
	s.paused += by
	is := s.paused > 0
	if is == was {
		return
	}
	w.putSessions()
	kind := history.SessionResumed
	if is {
		kind = history.SessionPaused
	}
	w.emit(history.Event{Kind: kind, Session: s.id})
}

func (w *world) putSessions() {
	ids := make([]string, 0, len(w.sess))
	for i := range w.sess {
		if s := &w.sess[i]; !s.gone && s.paused == 0 {
			ids = append(ids, s.id)
		}
	}
	for _, s := range w.servers {
		s.SetSessions(core.NewSessions(ids))
	}
}
