package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	core "github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/sessionid"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// problem is a problem document of RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// SessionID is the session that conflicts with a start (409), if known.
	SessionID string `json:"sessionId,omitempty"`

	outcome    string // label in metrics
	challenge  string
	allow      string
	retryAfter int // seconds
}

const problemPrefix = "urn:leasestorm:problem:"

func refused(status int, code, detail string) *problem {
	return &problem{Type: problemPrefix + code, Title: http.StatusText(status), Status: status, Detail: detail, outcome: code}
}

func (p *problem) write(w http.ResponseWriter) {
	header := w.Header()
	if p.challenge != "" {
		header.Set("WWW-Authenticate", p.challenge)
	}
	if p.allow != "" {
		header.Set("Allow", p.allow)
	}
	if p.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	if p.Status == http.StatusRequestTimeout || p.Status == http.StatusRequestEntityTooLarge {
		header.Set("Connection", "close") // do not wait for the rest of the body
	}
	writeJSON(w, p.Status, "application/problem+json", p)
}

func writeJSON(w http.ResponseWriter, status int, kind string, v any) {
	body, err := json.Marshal(v)
	if err != nil { // impossible: only strings and numbers
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", kind)
	header.Set("Content-Length", strconv.Itoa(len(body)+1))
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

// causes explains Redis' refusals by their code.
var causes = map[string]string{
	"OOM": "it is out of memory", "NOPERM": "its ACL denies a command or a key", "READONLY": "it is a replica",
	"NOREPLICAS": "it has too few replicas to accept writes", "MISCONF": "it cannot save to its disk",
	"LOADING": "it is still loading its data", "BUSY": "it is busy with a script", "NOAUTH": "it requires a password",
	"WRONGPASS": "user or password are wrong", "WRONGTYPE": "a key holds another type", "CLUSTERDOWN": "its cluster is down",
	"MASTERDOWN": "its master is away",
}

// storeProblem reports a store's error without its text, which names users and scripts. resource is what the application calls a resource.
func storeProblem(resource string, err error) *problem {
	var busy *store.BusyError
	switch {
	case errors.As(err, &busy):
		p := refused(http.StatusConflict, "conflict", "the "+resource+" is in use; stop that session, or wait for its end")
		if id, ok := strings.CutPrefix(busy.Holder, core.SessionOwner("")); ok && sessionid.Valid(id) {
			p.SessionID = id
		}
		return p
	case errors.Is(err, intent.ErrInvalid):
		return refused(http.StatusBadRequest, "invalid", err.Error())
	case errors.Is(err, store.ErrNotFound):
		return refused(http.StatusNotFound, "not-found", "there is no session of this ID, or it ended long ago")
	case errors.Is(err, store.ErrQuarantine):
		p := refused(http.StatusServiceUnavailable, "quarantine", "Redis lost its data a moment ago; nothing is started yet")
		p.retryAfter = 5
		return p
	}
	detail := "Redis does not answer; send the same request again"
	if code := intentbus.Refused(err); code != "" {
		key := (*store.ForeignKeyError)(nil)
		if errors.As(err, &key) {
			code += ": " + key.Key + " holds another type"
		} else if cause := causes[code]; cause != "" {
			code += ": " + cause
		}
		detail = "Redis refused the request (" + code + "); send it again once that is fixed"
	}
	p := refused(http.StatusServiceUnavailable, "unavailable", detail)
	p.retryAfter = 1
	return p
}
