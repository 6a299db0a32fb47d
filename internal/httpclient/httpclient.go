// Package httpclient makes clients of HTTP servers that may be hostile, or be another than was meant.
package httpclient

import (
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/leasestorm/leasestorm/internal/plain"
)

// ErrSwitched: the server answered 101. net/http hands the connection over then, and no context ends what is read of it.
var ErrSwitched = errors.New("the server switches to a protocol that nobody asked for (101)")

// New returns a client over t. It follows no redirect, and errors that quote what the server said are cut.
func New(t *http.Transport) *http.Client {
	return &http.Client{
		Transport:     transport{t},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type transport struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(r)
	switch {
	case err != nil:
		return nil, cut{err}
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return nil, errors.Join(ErrSwitched, resp.Body.Close())
	}
	return resp, nil
}

// saidMax is how many bytes of an error are shown: one quotes a whole line of what the server said.
const saidMax = 300

// cut is an error whose text is cut.
type cut struct{ error }

func (c cut) Error() string { return plain.Cut(c.error.Error(), saidMax) }
func (c cut) Unwrap() error { return c.error }

// Timeout has a client tell a time-out from other errors.
func (c cut) Timeout() bool {
	var e net.Error
	return errors.As(c.error, &e) && e.Timeout()
}

// Status is the error of an answer that is none of success, else nil. What names who answered.
func Status(what string, r *http.Response) error {
	if r.StatusCode < http.StatusMultipleChoices {
		return nil
	}
	return fmt.Errorf("%s answered %d", what, r.StatusCode)
}
