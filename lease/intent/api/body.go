package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// request is a POST to /api/v3/intents, read and found well-formed.
type request struct {
	stop    bool
	session string // stop
	start   intent.Start
}

const (
	typeStart = "stream.start"
	typeStop  = "stream.stop"
)

// readBody reads what a client sends, no more than is allowed and no longer.
func (h *handler) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *problem) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := params["charset"]
	if err != nil || kind != "application/json" || charset != "" && charset != "utf-8" && charset != "UTF-8" {
		return nil, refused(http.StatusUnsupportedMediaType, "media-type", "send Content-Type: application/json")
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, refused(http.StatusUnsupportedMediaType, "media-type", "the body must not be encoded")
	}
	large := refused(http.StatusRequestEntityTooLarge, "too-large", fmt.Sprintf("the body has more than %d bytes", h.cfg.BodyMax))
	if r.ContentLength > h.cfg.BodyMax {
		return nil, large
	}
	// Not every ResponseWriter can; then the server's own limits hold.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.cfg.BodyTimeout))
	body, err := io.ReadAll(io.LimitReader(r.Body, h.cfg.BodyMax+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refused(http.StatusRequestTimeout, "timeout", fmt.Sprintf("the body did not arrive within %v", h.cfg.BodyTimeout))
	case err != nil:
		return nil, refused(http.StatusBadRequest, "invalid", "the body cannot be read")
	case int64(len(body)) > h.cfg.BodyMax:
		return nil, large
	}
	return body, nil
}

// parse reads a body: one flat JSON object of known members, each once.
func parse(body []byte) (request, error) {
	var req request
	bad := func(format string, args ...any) (request, error) {
		return req, fmt.Errorf("%w: %s", intent.ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return bad("the body is empty")
	case !utf8.Valid(body):
		return bad("the body is not UTF-8")
	}
	members, err := flatObject(body)
	if err != nil {
		return bad("%v", err)
	}
	kind, given := members["type"].(string)
	if !given {
		return bad("type is missing; it is %q or %q", typeStart, typeStop)
	}
	delete(members, "type")
	if kind == typeStop {
		req.stop = true
		req.session, _ = members["sessionId"].(string)
		if !sessionForm(req.session) {
			return bad("sessionId is missing or no UUID")
		}
		delete(members, "sessionId")
		return req, leftOver(members, kind)
	}
	if kind != typeStart {
		return bad("type is %q; it is %q or %q", clip(kind), typeStart, typeStop)
	}
	req.start.ServiceRef, _ = members["serviceRef"].(string)
	req.start.Profile, _ = members["profile"].(string)
	if p, given := members["profile"]; given && p == "" {
		return bad("profile is empty; leave it out for %q", intent.ProfileDefault)
	}
	if n, given := members["startMs"].(json.Number); given {
		if req.start.StartMs, err = n.Int64(); err != nil || req.start.StartMs == 0 {
			return bad("startMs is %s; it must be a whole number of milliseconds from %d", clip(n.String()), intent.StartMsMin)
		}
	}
	delete(members, "serviceRef")
	delete(members, "profile")
	delete(members, "startMs")
	if err := leftOver(members, kind); err != nil {
		return req, err
	}
	req.start, err = req.start.Canonical()
	return req, err
}

// memberTypes are the members that any intent may have, with a value of the type that each must have.
var memberTypes = map[string]any{"type": "", "serviceRef": "", "profile": "", "sessionId": "", "startMs": json.Number("")}

func leftOver(members map[string]any, kind string) error {
	for name := range members {
		return fmt.Errorf("%w: %s does not have the member %q", intent.ErrInvalid, kind, name)
	}
	return nil
}

// flatObject reads an object of strings and numbers. Names are compared exactly; unknown and repeated ones are refused.
func flatObject(body []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return nil, errors.New("the body is not a JSON object")
	}
	members := map[string]any{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, errors.New("the body is not JSON")
		}
		name, _ := token.(string)
		want, known := memberTypes[name]
		if !known {
			return nil, fmt.Errorf("the member %q is not known", clip(name))
		}
		if _, twice := members[name]; twice {
			return nil, fmt.Errorf("the member %q is there twice", name)
		}
		value, err := dec.Token()
		if err != nil {
			return nil, errors.New("the body is not JSON")
		}
		if fmt.Sprintf("%T", value) != fmt.Sprintf("%T", want) {
			return nil, fmt.Errorf("the member %q must be a %s", name, map[bool]string{true: "string", false: "number"}[want == ""])
		}
		members[name] = value
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return nil, errors.New("the body is not JSON")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return members, nil
}

// sessionForm accepts the form of 36 characters only.
func sessionForm(id string) bool { return len(id) == 36 && uuid.Validate(id) == nil }

// clip bounds what is quoted of a request.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
