package proxy

// requests counts the commands, RESP arrays or plain lines, that a client sends over one connection. The zero value is ready.
type requests struct {
	words  int64 // bulk strings of the current command that are still to come
	skip   int64 // bytes of the current bulk string that are still to come
	number int64 // number after the mark of the current line
	mark   byte  // first byte of the current line; 0: not read yet
}

// take returns how many commands end in b. An array counts as soon as its length is read.
func (r *requests) take(b []byte) (commands int64) {
	for len(b) > 0 {
		if r.skip > 0 {
			n := min(r.skip, int64(len(b)))
			r.skip -= n
			b = b[n:]
			continue
		}
		c := b[0]
		b = b[1:]
		switch {
		case c == '\n':
			commands += r.line()
		case c == '\r':
		case r.mark == 0:
			r.mark, r.number = c, 0
		case c >= '0' && c <= '9':
			r.number = 10*r.number + int64(c-'0')
		}
	}
	return commands
}

func (r *requests) line() int64 {
	mark, number := r.mark, r.number
	r.mark = 0
	switch {
	case mark == '$' && r.words > 0:
		r.words--
		r.skip = number + 2
		return 0
	case mark == '*':
		r.words = number
		return min(number, 1)
	case mark == 0:
		return 0
	}
	r.words = 0
	return 1
}
