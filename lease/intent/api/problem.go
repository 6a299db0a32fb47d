package api

import (
	"encoding/json"
	"net/http"
	"strconv"
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
