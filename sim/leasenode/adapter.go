package leasenode

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	lineMax   = 64 << 10 // bound of an adapter's line, in bytes
	lineShown = 120      // bytes of a wrong line in a message
)

// The operations of the lease protocol.
const (
	opAcquire = "acquire"
	opRenew   = "renew"
	opCheck   = "check"
	opRelease = "release"
)

// request is one line for the adapter.
type request struct {
	ID  int64  `json:"id"`
	Op  string `json:"op"`
	Key string `json:"key"`
	TTL int64  `json:"ttl_ms"`

	session  string
	answered chan answer // has room for the answer
	left     bool        // nobody waits for the answer any more
	late     bool        // because its time was over
}

// answer is one line of the adapter. err is set if the adapter gave no valid answer.
type answer struct {
	ID    int64  `json:"id"`
	OK    *bool  `json:"ok"`
	Until int64  `json:"until_unix_ms"`
	Fence int64  `json:"fence"`
	Error string `json:"error"`
	Retry bool   `json:"retry"`

	Event string `json:"event"` // "lost": unasked, of the lease Key
	Key   string `json:"key"`

	err error
}

func (a *answer) ok() bool { return a.err == nil && a.OK != nil && *a.OK }

func (a *answer) why() string {
	if a.err != nil {
		return a.err.Error()
	}
	return a.Error
}

// adapter is a running adapter.
type adapter struct {
	name  string
	pid   int // also of its process group; 0: it runs in this process
	in    io.WriteCloser
	lost  func(key string)
	wrong func(text string) // reports a violation of the protocol in one line

	mu      sync.Mutex
	last    int64
	pending []*request // in the order in which they were sent
	err     error      // of the end; valid once ended is closed
	ended   chan struct{}
}

// asked names the oldest request without an answer. mu is held.
func (a *adapter) asked() string {
	if r := a.oldest(); r != nil {
		return fmt.Sprintf("session %s, %s", r.session, r.Op)
	}
	return "no request"
}

// oldest returns the oldest request for whose answer somebody waits, or nil. mu is held.
func (a *adapter) oldest() *request {
	for _, r := range a.pending {
		if !r.left {
			return r
		}
	}
	return nil
}

func (a *adapter) read(out io.Reader) {
	in := bufio.NewReaderSize(out, lineMax)
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			a.refuse("longer than 64 KiB", line)
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
		case len(strings.TrimSpace(string(line))) > 0:
			a.take(line)
		}
		if err != nil {
			return
		}
	}
}

// take delivers a line to the request that it answers.
func (a *adapter) take(line []byte) {
	var got answer
	if err := json.Unmarshal(line, &got); err != nil {
		a.refuse("no JSON of the lease protocol: "+err.Error(), line)
		return
	}
	if got.Event == "lost" {
		a.lost(got.Key)
		return
	}
	a.mu.Lock()
	i := slices.IndexFunc(a.pending, func(r *request) bool { return r.ID == got.ID })
	if i < 0 || got.OK == nil {
		a.mu.Unlock()
		a.refuse(fmt.Sprintf(`not an answer {"id":N,"ok":true or false} to a request without one (id %d)`, got.ID), line)
		return
	}
	r := a.pending[i]
	a.pending = slices.Delete(a.pending, i, i+1)
	left, late := r.left, r.late
	a.mu.Unlock()
	switch {
	case late:
		fmt.Fprintf(os.Stderr, "adapter %s, session %s: late answer to %s: %s\n", a.name, r.session, r.Op, show(line))
	case !left:
		r.answered <- got
	}
}

// refuse reports a wrong line and fails the oldest request in its place.
func (a *adapter) refuse(why string, line []byte) {
	a.mu.Lock()
	r, session := a.oldest(), "none"
	if r != nil {
		r.left, session = true, r.session // its own answer may follow
	}
	a.mu.Unlock()
	text := fmt.Sprintf("adapter %s, session %s: %s: %s", a.name, session, why, show(line))
	a.wrong(text)
	if r != nil {
		r.answered <- answer{err: errors.New(text)}
	}
}

func show(line []byte) string {
	return strings.ToValidUTF8(strings.TrimSpace(string(line[:min(len(line), lineShown)])), "\uFFFD")
}

// ask sends a request and waits for its answer, for the adapter's end or for that of ctx.
func (a *adapter) ask(ctx context.Context, op, session, key string, ttl time.Duration) answer {
	a.mu.Lock()
	a.last++
	r := &request{ID: a.last, Op: op, Key: key, TTL: ttl.Milliseconds(), session: session, answered: make(chan answer, 1)}
	a.pending = append(a.pending, r)
	line, err := json.Marshal(r)
	if err == nil {
		_, _ = a.in.Write(append(line, '\n')) // an error means that the adapter ends
	}
	a.mu.Unlock()
	select {
	case got := <-r.answered:
		return got
	case <-a.ended:
		return answer{err: a.err}
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r.left, r.late = true, errors.Is(ctx.Err(), context.DeadlineExceeded)
	return answer{err: fmt.Errorf("adapter %s, session %s: no answer to %s in time", a.name, session, op)}
}
