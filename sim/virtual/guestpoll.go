package virtual

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/leasestorm/leasestorm/sim/protocol"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

// serve passes the next complete HTTP request of a guest to the target.
func (c *guestConn) serve() {
	end := bytes.Index(c.in, []byte("\r\n\r\n"))
	if end < 0 || c.poll >= 0 {
		return
	}
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(c.in)))
	if err != nil {
		c.reset()
		return
	}
	size := end + 4 + int(max(0, req.ContentLength))
	if len(c.in) < size {
		return
	}
	c.in = c.in[size:]
	tg := c.g.n.fleet.target
	session, isPoll := strings.CutPrefix(req.URL.Path, "/poll/")
	i, known := tg.app.index[session]
	fence, ferr := protocol.ParseFence(req.Header.Get("X-Fence"))
	switch {
	case req.Method == http.MethodGet && req.URL.Path == "/sessions":
		c.answerSoon(http.StatusOK, tg.app.list())
	case req.Method != http.MethodPost || !isPoll || !known:
		c.answerSoon(http.StatusNotFound, nil)
	case req.Header.Get("X-Instance") == "" || ferr != nil:
		c.answerSoon(http.StatusBadRequest, nil)
	default:
		tg.gens++
		c.poll = tg.add(poll{
			gen: tg.gens, node: int32(c.g.n.slot - 1), ends: forever, session: i, fence: fence, id: session,
			instance: req.Header.Get("X-Instance"),
		})
		tg.send(c.poll, tg.gens)
	}
}

func (a *application) list() []byte {
	ids := []string{}
	for i := range a.sessions {
		if s := &a.sessions[i]; s.wanted() {
			ids = append(ids, s.id)
		}
	}
	text, _ := json.Marshal(ids) // strings cannot fail
	return text
}

// answerSoon answers a request that the target does not serve as a poll.
func (c *guestConn) answerSoon(code int, body []byte) {
	n := c.g.n
	c.g.later(2*n.hop(), c, func() { c.answer(code, body) })
}

func (c *guestConn) answer(code int, body []byte) {
	text := fmt.Sprintf("HTTP/1.1 %d %s\r\n", code, http.StatusText(code))
	if code != http.StatusNoContent {
		text += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	c.g.prog.Deliver(c.id, append([]byte(text+"\r\n"), body...))
	c.serve()
}

// polled receives the target's answer to a poll.
func (g *guestNode) polled(e *loop.Event) {
	tg := g.n.fleet.target
	p := tg.get(e.Arg, e.Gen)
	if p == nil || p.over {
		return
	}
	code := http.StatusNoContent
	if p.refused {
		code = http.StatusConflict
	}
	tg.remove(e.Arg)
	for _, c := range g.conns {
		if c.poll == e.Arg {
			c.poll = -1
			c.answer(code, nil)
			g.resume()
			return
		}
	}
}
