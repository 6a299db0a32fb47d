package wasm

import "encoding/binary"

// open gives f a new descriptor. A number is used only once, so that nothing late comes to another connection.
func (p *program) open(f *file) int32 {
	p.lastFile++
	p.files[p.lastFile] = f
	return p.lastFile
}

func (c call) knowsFile() errno {
	if c.files[c.i32(0)] == nil {
		return ebadf
	}
	return success
}

// Types of descriptors.
const characterDevice, streamSocket = 2, 6

// kind returns the type of a descriptor: standard input is as /dev/null, all else as a socket.
func kind(fd int32) byte {
	if fd == 0 {
		return characterDevice
	}
	return streamSocket
}

// fileStatus says of a descriptor other than the standard streams that it does not block, so that Go waits for it in poll_oneoff.
func (c call) fileStatus() errno {
	const nonBlocking = 4
	fd := c.i32(0)
	if c.files[fd] == nil {
		return ebadf
	}
	status := c.bytes(c.u32(1), 24)
	clear(status)
	status[0] = kind(fd)
	if fd > 2 {
		status[2] = nonBlocking
	}
	binary.LittleEndian.PutUint64(status[8:], ^uint64(0)) // all rights
	return success
}

func (c call) fileType() errno {
	if c.files[c.i32(0)] == nil {
		return ebadf
	}
	status := c.bytes(c.u32(1), 64)
	clear(status)
	status[16] = kind(c.i32(0))
	return success
}

func (c call) closeFile() errno {
	fd := c.i32(0)
	f := c.files[fd]
	if f == nil {
		return ebadf
	}
	delete(c.files, fd)
	if f.conn {
		c.host.Close(fd)
	}
	if f.to != nil {
		f.to.ended = true
	}
	f.closed = true
	return success
}

// buffers calls f with each buffer of a read or write until it returns an error or handles less than the whole, and puts the sum.
func (c call) buffers(f func([]byte) (int, errno)) errno {
	vec := c.bytes(c.u32(1), 8*c.u32(2))
	sum := 0
	for ; len(vec) > 0; vec = vec[8:] {
		b := c.bytes(binary.LittleEndian.Uint32(vec), binary.LittleEndian.Uint32(vec[4:]))
		n, e := f(b)
		if e != success && sum == 0 {
			return e
		}
		if sum += n; n < len(b) {
			break
		}
	}
	c.put(c.u32(3), uint32(sum))
	return success
}

func (c call) read() errno {
	f := c.files[c.i32(0)]
	if f == nil || c.i32(0) == 1 || c.i32(0) == 2 || f.to != nil {
		return ebadf
	}
	return c.buffers(f.read)
}

func (c call) write() errno {
	fd := c.i32(0)
	f := c.files[fd]
	if f == nil {
		return ebadf
	}
	return c.buffers(func(b []byte) (int, errno) {
		switch {
		case fd == 1 || fd == 2:
			c.host.Print(fd, b)
		case f.to != nil && f.to.closed:
			return 0, epipe
		case f.to != nil:
			f.to.append(append([]byte(nil), b...))
		case !f.conn:
			return 0, ebadf
		default:
			if e := f.writeError(); e != success {
				return 0, e
			}
			c.host.Write(fd, b)
		}
		return len(b), success
	})
}

func (c call) dial() uint32 {
	f := &file{conn: true, connecting: true}
	fd := c.open(f)
	c.host.Dial(fd, string(c.bytes(c.u32(0), c.u32(1))))
	return uint32(fd)
}

func (c call) connected() errno {
	f := c.files[c.i32(0)]
	if f == nil || !f.conn {
		return ebadf
	}
	if f.connecting {
		return eagain
	}
	return f.failure
}

// pipe makes a pipe within the program. It takes any number of bytes.
func (c call) pipe() errno {
	r := &file{}
	c.put(c.u32(0), uint32(c.open(r)))
	c.put(c.u32(1), uint32(c.open(&file{to: r})))
	return success
}

func (c call) openSignals() uint32 { return uint32(c.open(c.signals)) }

func (c call) setSignal() errno {
	if c.i32(0) == sigterm {
		c.sigterm = c.i32(1)
	}
	return success
}
