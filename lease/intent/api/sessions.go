package api

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/sessionid"
	"github.com/leasestorm/leasestorm/lease/intent"
)

type sessionView struct {
	SessionID string        `json:"sessionId"`
	Resource  string        `json:"resource"`
	Profile   string        `json:"profile"`
	At        int64         `json:"at,omitempty"`
	State     intent.State  `json:"state"`
	Reason    intent.Reason `json:"reason,omitempty"`
	Detail    string        `json:"detail,omitempty"`
	Stopping  bool          `json:"stopping,omitempty"`
	Slot      string        `json:"slot,omitempty"`
	Worker    string        `json:"worker,omitempty"`
	Fence     int64         `json:"fence,omitempty"`
	CreatedMs int64         `json:"createdMs"`
	UpdatedMs int64         `json:"updatedMs"`
}

func view(s *intent.Session) sessionView {
	return sessionView{
		SessionID: s.ID, Resource: s.Resource, Profile: s.Profile, At: s.At, State: s.State, Reason: s.Reason,
		Detail: s.Detail, Stopping: s.StopAsked, Slot: s.Slot, Worker: s.Worker, Fence: s.Fence,
		CreatedMs: s.CreatedAt.UnixMilli(), UpdatedMs: s.UpdatedAt.UnixMilli(),
	}
}

func (h *Handler) readable(r *http.Request) *problem {
	if p := only(r, http.MethodGet, http.MethodHead); p != nil {
		return p
	}
	_, p := h.tokens.authorize(r, intent.ScopeRead)
	return p
}

func (h *Handler) session(w http.ResponseWriter, r *http.Request, id string) *problem {
	if p := h.readable(r); p != nil {
		return p
	}
	if !sessionid.Valid(id) {
		return refused(http.StatusNotFound, "not-found", "a session's ID is a UUID in lower case")
	}
	s, err := h.store.Get(r.Context(), id)
	if err != nil {
		return h.failed(r, err)
	}
	writeJSON(w, http.StatusOK, "application/json", h.texts.named(view(&s)))
	return nil
}

type page struct {
	Sessions []sessionView `json:"sessions"`
	Next     string        `json:"next,omitempty"`
	// KeysForeign counts the sessions omitted from the page because their keys
	// hold another type.
	KeysForeign int `json:"keysForeign,omitempty"`
}

const (
	pageDefault = 50
	pageMax     = 200
)

// A list costs Redis as much as reading two hundred sessions. At most listsMax
// lists are in progress; further ones wait up to listPatience.
const (
	listsMax     = 2
	listPatience = time.Second
)

func (h *Handler) list(w http.ResponseWriter, r *http.Request) *problem {
	if p := h.readable(r); p != nil {
		return p
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return refused(http.StatusBadRequest, "invalid", "the query is malformed")
	}
	for name, values := range query {
		if name != "limit" && name != "cursor" || len(values) > 1 {
			return refused(http.StatusBadRequest, "invalid", "the query may have limit and cursor, each once")
		}
	}
	limit, err := strconv.Atoi(cmp.Or(query.Get("limit"), strconv.Itoa(pageDefault)))
	if err != nil || limit < 1 || limit > pageMax {
		return refused(http.StatusBadRequest, "invalid", fmt.Sprintf("limit must be 1 to %d", pageMax))
	}
	cursor := query.Get("cursor")
	if cursor != "" && !sessionid.Valid(cursor) {
		return refused(http.StatusBadRequest, "invalid", "cursor must be the one that the last page returned")
	}
	wait, cancel := context.WithTimeout(r.Context(), listPatience)
	defer cancel()
	select {
	case h.lists <- struct{}{}:
		defer func() { <-h.lists }()
	case <-wait.Done():
		return late("rate", fmt.Sprintf("at most %d lists are read at once; try again", listsMax), listPatience)
	}
	sessions, next, err := h.store.List(r.Context(), cursor, limit)
	return h.page(w, r, sessions, next, err)
}

func (h *Handler) page(w http.ResponseWriter, r *http.Request, sessions []intent.Session, next string, err error) *problem {
	skipped := &inner.Skipped{}
	if err != nil && !errors.As(err, &skipped) {
		return h.failed(r, err)
	}
	if skipped.Count > 0 {
		if more, now := h.foreign.due(time.Now()); now {
			h.cfg.Logger.Warn("sessions are left out of a list; rename or delete their keys", zap.Strings("keys", skipped.Names),
				zap.Int("keysForeign", skipped.Count), zap.Int("sinceLast", more))
		}
	}
	body := page{Sessions: make([]sessionView, 0, len(sessions)), Next: next, KeysForeign: skipped.Count}
	for i := range sessions {
		body.Sessions = append(body.Sessions, view(&sessions[i]))
	}
	writeJSON(w, http.StatusOK, "application/json", h.texts.named(&body))
	return nil
}

//go:embed openapi.json
var openAPIDocument string

func (h *Handler) openAPI(w http.ResponseWriter, r *http.Request) *problem {
	if p := only(r, http.MethodGet, http.MethodHead); p != nil {
		return p
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = h.texts.openAPI.WriteString(w, openAPIDocument)
	return nil
}
