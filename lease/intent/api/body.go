package api

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/leasestorm/leasestorm/internal/sessionid"
	"github.com/leasestorm/leasestorm/lease/intent"
)

type request struct {
	stop    bool
	session string
	start   intent.Request
}

// readBody reads a body of at most most bytes that arrives within timeout.
func readBody(w http.ResponseWriter, r *http.Request, most int64, timeout time.Duration) ([]byte, *problem) {
	if kinds := r.Header["Content-Type"]; len(kinds) != 1 || !jsonMedia(kinds[0]) {
		return nil, refused(http.StatusUnsupportedMediaType, "media-type", "send Content-Type: application/json")
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, refused(http.StatusUnsupportedMediaType, "media-type", "the body must not be encoded")
	}
	large := func() *problem {
		return refused(http.StatusRequestEntityTooLarge, "too-large", fmt.Sprintf("the body has more than %d bytes", most))
	}
	if r.ContentLength > most {
		return nil, large()
	}
	// If the ResponseWriter does not support a read deadline, the server's own
	// limits apply.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout))
	body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refused(http.StatusRequestTimeout, "timeout", fmt.Sprintf("the body did not arrive within %v", timeout))
	case err != nil:
		return nil, refused(http.StatusBadRequest, "invalid", "the body cannot be read")
	case int64(len(body)) > most:
		return nil, large()
	}
	return body, nil
}

func jsonMedia(header string) bool {
	if header == "application/json" {
		return true
	}
	kind, params, err := mime.ParseMediaType(header)
	charset := params["charset"]
	return err == nil && kind == "application/json" && (charset == "" || charset == "utf-8" || charset == "UTF-8")
}

// parse parses a body: one flat JSON object of known members, each once.
func parse(names intent.Names, body []byte) (request, error) {
	var req request
	n := names.Table()
	typeStart, typeStop := n.Verb+"start", n.Verb+"stop"
	known := memberNames{mType: "type", mRef: n.ResourceMember, mProfile: "profile", mSession: "sessionId", mAt: n.AtMember}
	bad := func(format string, args ...any) (request, error) {
		return req, fmt.Errorf("%w: %s", intent.ErrInvalid, fmt.Sprintf(format, args...))
	}
	m, err := known.flatObject(body)
	if err != nil {
		return bad("%v", err)
	}
	var refused error
	switch kind := m[mType].text; {
	case !m[mType].given:
		return bad("type is missing; it must be %q or %q", typeStart, typeStop)
	case kind == typeStop:
		refused = known.only(&m, kind, mType, mSession)
	case kind == typeStart:
		refused = known.only(&m, kind, mType, mRef, mProfile, mAt)
	default:
		return bad("type is %q; it must be %q or %q", clip(kind), typeStart, typeStop)
	}
	if refused != nil {
		return bad("%v", refused)
	}
	if m[mType].text == typeStop {
		req.stop, req.session = true, m[mSession].text
		if !sessionid.Valid(req.session) {
			return bad("sessionId is missing or no UUID in lower case")
		}
		return req, nil
	}
	req.start.Resource, req.start.Profile = m[mRef].text, m[mProfile].text
	if m[mProfile].given && req.start.Profile == "" {
		return bad("profile is empty; leave it out for \"default\"")
	}
	if at := m[mAt]; at.given {
		if req.start.At, err = strconv.ParseInt(at.text, 10, 64); err != nil || req.start.At == 0 {
			return bad("%s is %s; it must be a whole number of milliseconds from 1000", n.AtMember, clip(at.text))
		}
	}
	req.start, err = req.start.Canonical(names)
	return req, err
}
