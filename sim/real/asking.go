package real

import (
	"errors"
	"net"
	"strconv"
	"strings"
)

// What no client that asks for leases goes beyond.
const (
	askedWords = 1 << 16  // of a request
	askedWord  = 1 << 20  // bytes of one
	askedMax   = 16 << 20 // bytes of all
	askedLine  = 16       // bytes of a line that says how many come
)

var errAsked = errors.New("no request that the embedded Redis takes")

// asking is a connection of a client, whose requests are looked at as they are read: arrays of bulk strings, of bounded lengths. Anything
// else ends it.
type asking struct {
	net.Conn

	line  []byte // what is there of it
	words int    // of the present request that are still to come
	skip  int    // bytes of the present word that are, with its end
	bytes int    // of the present request
	err   error
}

// Read implements net.Conn. Of bytes that are refused none is passed on.
func (a *asking) Read(b []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	n, err := a.Conn.Read(b)
	if a.err = a.scan(b[:n]); a.err != nil {
		_ = a.Conn.Close()
		return 0, a.err
	}
	return n, err
}

func (a *asking) scan(b []byte) error {
	for len(b) > 0 {
		if a.skip > 0 {
			n := min(a.skip, len(b))
			a.skip -= n
			b = b[n:]
			continue
		}
		a.line = append(a.line, b[0])
		switch {
		case b[0] == '\n':
			if err := a.counted(); err != nil {
				return err
			}
			a.line = a.line[:0]
		case len(a.line) == askedLine:
			return errAsked
		}
		b = b[1:]
	}
	return nil
}

// counted takes a whole line: how many words come, or how many bytes.
func (a *asking) counted() error {
	text, whole := strings.CutSuffix(string(a.line), "\r\n")
	if !whole || text == "" {
		return errAsked
	}
	n, err := strconv.Atoi(text[1:])
	switch {
	case err != nil:
	case a.words == 0 && text[0] == '*' && n > 0 && n <= askedWords:
		a.words, a.bytes = n, 0
		return nil
	case a.words > 0 && text[0] == '$' && n >= 0 && n <= askedWord && a.bytes+n <= askedMax:
		a.words--
		a.bytes += n
		a.skip = n + len("\r\n")
		return nil
	}
	return errAsked
}
