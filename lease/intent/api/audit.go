package api

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/callback"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// audit tells the log who had what done, each start, and of the rest as many entries as the token may start: else who has one could
// fill the disk.
func (h *Handler) audit(r *http.Request, token *Token, outcome, session string) {
	var more []zap.Field
	if outcome != outcomeAccepted {
		since, due := h.quotas.entry(token, time.Now())
		if !due {
			return
		}
		if since > 0 {
			more = append(more, zap.Int("sinceLast", since))
		}
	}
	h.entry(r, token.Name, outcome, session, more...)
}

// observe tells the observer something.
func (h *Handler) observe(tell func(intent.Observer)) {
	callback.Tell(tell, func(with any) { h.log.Panicked("an observer of intents panicked", with) }, h.cfg.Observer)
}

// Flush waits until what the log was told has been written, or ctx has ended, and reports whether it was: who ends the process after the
// last request has the last entries so.
func (h *Handler) Flush(ctx context.Context) bool { return h.log.Flush(ctx) }

// outcomeAccepted is a start that made a session.
const outcomeAccepted = "accepted"

// entry writes an entry with the name of the token, never the token.
func (h *Handler) entry(r *http.Request, token, outcome, session string, more ...zap.Field) {
	entry := h.cfg.Logger.Check(zap.InfoLevel, "request")
	if entry == nil {
		return
	}
	entry.Write(append(more, zap.String("token", token), zap.String("outcome", outcome), zap.String("session", session),
		zap.String("method", clip(r.Method)), zap.String("path", clip(r.URL.Path)), zap.String("peer", r.RemoteAddr))...)
}

// auditRefusal tells the log of a request that was refused: of a known token's as audit does, and once a second of others, which cost
// whoever sends them nothing. A typing error in a path is nobody's concern.
func (h *Handler) auditRefusal(r *http.Request, p *problem) {
	if p.token != nil {
		h.audit(r, p.token, p.outcome, p.SessionID)
		return
	}
	if p.Status != http.StatusUnauthorized && p.Status != http.StatusForbidden {
		return
	}
	if more, now := h.unknown.due(time.Now()); now {
		h.entry(r, "", p.outcome, "", zap.Int("sinceLast", more))
	}
}
