package respguard

import "net"

// Hear returns conn for who hears a channel: of a string that is longer than most bytes nothing is handed on but an empty one in its
// place. It is passed over as it comes, for Redis lets whoever may publish send messages of 32 MB, of which go-redis makes a string each
// before anybody sees how long it is. To close the connection instead would let them keep the channel closed. So would go-redis at a
// message without a text, which Redis sends to any connection that another one names (CLIENT TRACKING): what is none, in either version of
// the protocol, is an empty string too. What is refused of replies is refused here as well.
func Hear(conn net.Conn, most int) net.Conn { return &hearing{Conn: conn, most: most} }

// hearing has, like any connection, one reader at a time.
type hearing struct {
	net.Conn

	most   int
	seen   scanner
	err    error
	in     [16 << 10]byte
	out    []byte // what is handed on of it
	rest   []byte // of out, what was not read yet
	header []byte // of a string whose length is not known yet
	over   bool   // the string is passed over
}

// Read implements net.Conn.
func (h *hearing) Read(b []byte) (int, error) {
	for len(h.rest) == 0 {
		if h.err != nil {
			return 0, h.err
		}
		n, err := h.Conn.Read(h.in[:])
		if h.err = h.pass(h.in[:n]); h.err != nil { // of bytes that are refused none is handed on
			_ = h.Conn.Close()
			return 0, h.err
		}
		if h.rest = h.out; len(h.rest) == 0 && err != nil { // one that comes with bytes comes again
			return 0, err
		}
	}
	n := copy(b, h.rest)
	h.rest = h.rest[n:]
	return n, nil
}

// pass makes h.out of what came.
func (h *hearing) pass(b []byte) error {
	h.out = h.out[:0]
	for len(b) > 0 {
		was := h.seen.state
		rest, err := h.seen.step(b)
		if err != nil {
			return err
		}
		part := b[:len(b)-len(rest)]
		b = rest
		switch {
		case was == inBulk && h.over:
			h.over = h.seen.state == inBulk
		case h.seen.state == inLength:
			h.header = append(h.header, part...)
		case h.seen.kind == '_' && h.seen.state == inLine:
		case h.seen.kind == '_', was == inLength && (h.seen.minus || h.seen.state == inBulk && h.seen.size > h.most):
			h.out = append(h.out, "$0\r\n\r\n"...)
			h.header, h.over = h.header[:0], h.seen.state == inBulk
		default:
			h.out = append(append(h.out, h.header...), part...)
			h.header = h.header[:0]
		}
	}
	return nil
}
