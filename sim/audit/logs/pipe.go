package logs

import (
	"io"
	"os"
	"sync"
)

// pipe reads ahead from a pipe, so that its reader never waits. Without data, Read returns io.EOF, as at the end of a file that grows.
type pipe struct {
	*os.File
	mu    sync.Mutex
	data  []byte
	taken sync.Cond
}

// aheadMax bounds what a pipe reads ahead, in bytes, in two parts.
const aheadMax = 256 << 10

func newPipe(f *os.File) *pipe {
	p := &pipe{File: f}
	p.taken.L = &p.mu
	go p.fill()
	return p
}

func (p *pipe) fill() {
	b := make([]byte, aheadMax)
	for {
		n, err := p.File.Read(b)
		p.mu.Lock()
		for len(p.data) >= aheadMax {
			p.taken.Wait()
		}
		p.data = append(p.data, b[:n]...)
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Read implements io.Reader.
func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.data)
	p.data = append(p.data[:0], p.data[n:]...)
	p.taken.Signal()
	return n, nil
}
