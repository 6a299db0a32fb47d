package node

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisurl"
)

const (
	exitOK    = 0
	exitDirty = 1 // not everything was released
	exitWrong = 3 // a setting or the Redis is wrong
)

// complain prints an error on standard error. It escapes quoted arguments, which may have a password or move the terminal's cursor. It
// waits at most one second, so that a node without a reader can end.
func complain(err error) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		fmt.Fprintln(terminal(os.Stderr), "node:", plain.Text(redisurl.Hide(err.Error())))
	}()
	select {
	case <-said:
	case <-time.After(time.Second):
	}
}

// terminal escapes control characters for a file that may be a terminal. The escapes do not change the meaning of JSON.
func terminal(f *os.File) io.Writer { return &plain.Writer{To: f} }

// clock converts times of this process to CLOCK_MONOTONIC, the clock that all processes of a host share.
type clock struct {
	base   time.Time
	offset int64
}

// monotonic reads CLOCK_MONOTONIC, in ns.
//
//go:linkname monotonic runtime.nanotime
func monotonic() int64

// newClock takes the closest of 100 readings, each between two readings of Go's clock.
func newClock() clock {
	c := clock{base: time.Now()}
	best := int64(1<<63 - 1)
	for range 100 {
		before := int64(time.Since(c.base))
		now := monotonic()
		after := int64(time.Since(c.base))
		if width := after - before; width < best {
			best = width
			c.offset = now - before - width/2
		}
	}
	return c
}

func (c clock) ns(t time.Time) int64 { return c.offset + int64(t.Sub(c.base)) }

// outputMax bounds the bytes that wait for a reader of standard output. A growing buffer briefly takes five times as much.
const outputMax = 8 << 20

// output writes protocol lines. A caller never waits for the reader. Lines queued together leave in one write.
type output struct {
	clock    clock
	instance []byte
	w        io.Writer
	broken   func(error) // called once, when there is no reader any more
	terse    bool        // the log omits repeated failures

	mu      sync.Mutex
	buf     []byte
	dropped int64 // lines dropped since the buffer was full
	writing bool
	closed  bool
	err     error
	changed sync.Cond
	done    chan struct{}
}

func newOutput(w io.Writer, c clock, instance string, broken func(error)) *output {
	name, _ := json.Marshal(instance)
	o := &output{clock: c, instance: name, w: w, broken: broken, done: make(chan struct{})}
	o.changed.L = &o.mu
	go o.run()
	return o
}

// line is one protocol line. Zero fields are omitted.
type line struct {
	event   string
	session string
	fence   int64
	at      time.Time
	until   time.Time
	reason  string

	from, to, leader string // of an election
	lines            int64
}

// say queues one line, or counts it if there is no room.
func (o *output) say(l line) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed || o.err != nil:
	case len(o.buf) > outputMax:
		o.dropped++
	default:
		o.add(l)
	}
}

// add queues one line. The caller holds mu.
func (o *output) add(l line) {
	b := append(o.buf, `{"event":"`...)
	b = append(b, l.event...)
	if l.session != "" {
		b = append(b, `","session":`...)
		b = appendText(b, l.session)
		b = append(b, `,"instance":`...)
	} else {
		b = append(b, `","instance":`...)
	}
	b = append(b, o.instance...)
	if l.fence != 0 {
		b = strconv.AppendInt(append(b, `,"fence":`...), l.fence, 10)
	}
	b = strconv.AppendInt(append(b, `,"t":`...), o.clock.ns(l.at), 10)
	if !l.until.IsZero() {
		b = strconv.AppendInt(append(b, `,"until":`...), o.clock.ns(l.until), 10)
	}
	if l.event == "ready" {
		b = append(b, `,"protocol":1`...)
	}
	if l.lines != 0 {
		b = strconv.AppendInt(append(b, `,"lines":`...), l.lines, 10)
	}
	for _, f := range [...]struct{ name, text string }{{`,"from":`, l.from}, {`,"to":`, l.to}, {`,"leader":`, l.leader},
		{`,"reason":`, l.reason}} {
		if f.text != "" {
			b = appendText(append(b, f.name...), f.text)
		}
	}
	o.buf = append(b, '}', '\n')
	o.changed.Broadcast()
}

func (o *output) stopped(err error) int {
	end, code := line{event: "stopped"}, exitOK
	if err != nil {
		complain(err)
		end.reason, code = err.Error(), exitDirty
	}
	end.at = time.Now()
	o.say(end)
	return code
}

func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(text)
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for (len(o.buf) > 0 || o.writing) && o.err == nil {
		o.changed.Wait()
	}
}

const closeWithin = 10 * time.Second

// close writes the remaining lines, or drops them if there is no reader.
func (o *output) close() {
	o.mu.Lock()
	o.closed = true
	o.changed.Broadcast()
	o.mu.Unlock()
	select {
	case <-o.done:
	case <-time.After(closeWithin):
	}
}

func (o *output) run() {
	defer close(o.done)
	var spare []byte
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		for len(o.buf) == 0 {
			if o.closed {
				return
			}
			o.changed.Wait()
		}
		batch := o.buf
		o.buf, o.writing = spare[:0], true
		if o.dropped > 0 { // there is room again: report the gap here
			o.add(line{event: "dropped", lines: o.dropped, at: time.Now()})
			o.dropped = 0
		}
		o.mu.Unlock()
		_, err := o.w.Write(batch)
		o.mu.Lock()
		spare, o.writing = batch, false
		if cap(spare) > 1<<20 {
			spare = nil
		}
		o.changed.Broadcast()
		if err != nil {
			o.err = err
			o.mu.Unlock()
			o.broken(err)
			o.mu.Lock()
			return
		}
	}
}
