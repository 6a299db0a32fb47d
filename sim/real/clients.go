package real

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// clients is who wants something in a storm of intents: for each service one client that starts a session, asks again
// elsewhere, conflicts with itself, stops it and begins anew, over HTTP, beside the proxies. What it asked and what it was told
// is recorded: the clients are a witness of I1 to I6.
type clients struct {
	run    *run
	http   *http.Client
	number atomic.Int64
	all    sync.WaitGroup
	cancel context.CancelFunc
}

// Tokens of the clients and their SHA-256, as LEASESTORM_TOKENS wants them.
const (
	writeToken = "storm-writer"
	readToken  = "storm-reader"
)

// startClients starts a client for each service. They ask until close.
func (r *run) startClients(ctx context.Context) *clients {
	ctx, cancel := context.WithCancel(ctx)
	c := &clients{run: r, cancel: cancel, http: &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: time.Second}).DialContext,
			MaxIdleConnsPerHost: 64, DisableCompression: true,
		},
	}}
	for i := range r.cfg.Sessions {
		one := &client{
			clients: c, rng: rand.New(rand.NewPCG(r.cfg.Seed, streamClients+uint64(i))),
			service: fmt.Sprintf("1:0:19:%X:3FB:1:C00000:0:0:0", i+1),
		}
		c.all.Go(func() { one.live(ctx) })
	}
	return c
}

func (c *clients) close() {
	c.cancel()
	c.all.Wait()
	c.http.CloseIdleConnections()
}

// client is the client of one service. It belongs to one goroutine.
type client struct {
	*clients
	rng     *rand.Rand
	service string
}

// chance is true once in n times.
func (c *client) chance(n int) bool { return c.rng.IntN(n) == 0 }

// wait waits for lo to hi poll intervals; false if the run is over.
func (c *client) wait(ctx context.Context, lo, hi float64) bool {
	d := time.Duration((lo + c.rng.Float64()*(hi-lo)) * float64(c.run.cfg.Poll))
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// live is the client's life: a session after another.
func (c *client) live(ctx context.Context) {
	if !c.wait(ctx, 0, 4) {
		return
	}
	for ctx.Err() == nil {
		if c.chance(8) {
			c.misbehave(ctx)
		}
		c.watchOne(ctx)
		c.wait(ctx, 0.5, 4)
	}
}

// watchOne starts a session, lives with it and stops it.
func (c *client) watchOne(ctx context.Context) {
	s := start{Service: c.service, Profile: "hd"}
	if c.chance(4) {
		c.alsoAsk(ctx, s)
	}
	id, ok := c.start(ctx, s)
	if !ok || c.follow(ctx, id, runningOrEnded) != "RUNNING" {
		return
	}
	c.wait(ctx, 0.5, 3)
	switch {
	case c.chance(4): // the same again: it runs already
		c.alsoAsk(ctx, s)
	case c.chance(3): // another profile: it conflicts
		c.conflict(ctx, start{Service: c.service, Profile: "sd"})
	case c.chance(3): // catch-up of the same service, with a key of its own
		c.conflict(ctx, start{Service: c.service, Profile: "hd", StartMs: 1_700_000_000_000 + c.number.Add(1)*1000})
	}
	c.wait(ctx, 0.5, 3)
	if c.stop(ctx, id) {
		c.follow(ctx, id, ended)
	}
}

// conflict starts what cannot run beside what runs, and waits for what becomes of it.
func (c *client) conflict(ctx context.Context, s start) {
	id, ok := c.start(ctx, s)
	if ok && c.follow(ctx, id, runningOrEnded) == "RUNNING" { // the other one had ended meanwhile
		c.stop(ctx, id)
	}
}

// alsoAsk sends the same start to several APIs at once, and does not care for the answers.
func (c *client) alsoAsk(ctx context.Context, s start) {
	for range 1 + c.rng.IntN(3) {
		api := c.api()
		c.all.Go(func() { c.ask(ctx, api, s.payload(), "start", writeToken, s.body()) })
	}
}

// start is what a client asks to be started.
type start struct {
	Service string
	Profile string
	StartMs int64
}

// payload is what shares an idempotency key.
func (s start) payload() string {
	return s.Service + ":" + s.Profile + ":" + strconv.FormatInt(s.StartMs/1000, 10)
}

func (s start) body() string {
	b := fmt.Sprintf(`{"type":"stream.start","serviceRef":%q,"profile":%q`, s.Service+":", s.Profile)
	if s.StartMs != 0 {
		b += `,"startMs":` + strconv.FormatInt(s.StartMs, 10)
	}
	return b + "}"
}

// start asks, elsewhere again and again, until it is told; false if it was refused or the run is over.
func (c *client) start(ctx context.Context, s start) (id string, ok bool) {
	for {
		switch status, id := c.ask(ctx, c.api(), s.payload(), "start", writeToken, s.body()); {
		case status == http.StatusAccepted:
			return id, true
		case status >= 400 && status < 500:
			return "", false
		}
		if !c.wait(ctx, 0.05, 0.5) {
			return "", false
		}
	}
}

func (c *client) stop(ctx context.Context, id string) bool {
	for {
		status, _ := c.ask(ctx, c.api(), id, "stop", writeToken, fmt.Sprintf(`{"type":"stream.stop","sessionId":%q}`, id))
		if status >= 200 && status < 500 {
			return status == http.StatusAccepted
		}
		if !c.wait(ctx, 0.05, 0.5) {
			return false
		}
	}
}

// misbehave sends what must be refused. Each asks for what nobody else asks for.
func (c *client) misbehave(ctx context.Context) {
	s := start{Service: fmt.Sprintf("bad:%d", c.number.Add(1)), Profile: "hd"}
	body, token, contentType := s.body(), writeToken, jsonType
	var what string
	switch c.rng.IntN(9) {
	case 0:
		what, token = "no token", ""
	case 1:
		what, token = "wrong token", "storm-writes"
	case 2:
		what, token = "wrong scope", readToken
	case 3:
		what, contentType = "not JSON by its type", "text/plain"
	case 4:
		what, body = "too large", body[:len(body)-1]+`,"pad":"`+strings.Repeat("x", 64<<10)+`"}`
	case 5:
		what, body = "unknown member", body[:len(body)-1]+`,"priority":1}`
	case 6:
		what, body = "member twice", body[:len(body)-1]+`,"profile":"sd"}`
	case 7:
		what, body = "cut off", body[:len(body)-1]
	case 8:
		what, body = "control character", strings.Replace(body, "bad:", `bad:\u0007`, 1)
	}
	c.send(ctx, c.api(), s.payload(), "bad "+what, token, contentType, body)
}

// States that a client waits for.
func runningOrEnded(state string) bool { return state == "RUNNING" || state == "ENDED" }
func ended(state string) bool          { return state == "ENDED" }

// followFor is how many TTLs a client follows a session before it gives up on it.
const followFor = 4

// follow asks for the session's state until it is one that is waited for, and returns it; "" if the session is not known, the
// run is over, or the client has waited for long enough.
func (c *client) follow(ctx context.Context, id string, enough func(string) bool) string {
	ctx, cancel := context.WithTimeout(ctx, followFor*c.run.cfg.TTL)
	defer cancel()
	last := ""
	for pause := 0.05; ; pause = min(pause*2, 1) {
		status, view := c.state(ctx, id)
		now := strings.TrimSpace(view.State + " " + view.Reason)
		if status == http.StatusNotFound {
			now = "gone"
		}
		if now != last && now != "" {
			c.run.record(history.Event{Kind: history.Seen, Session: id, Reason: now})
			last = now
		}
		if enough(view.State) {
			return view.State
		}
		if status == http.StatusNotFound || !c.wait(ctx, pause/2, pause) {
			return ""
		}
	}
}

// view is what the API tells of a session.
type view struct {
	SessionID string `json:"sessionId"`
	State     string `json:"state"`
	Reason    string `json:"reason"`
}

func (c *client) state(ctx context.Context, id string) (status int, v view) {
	api := c.api()
	if api == nil {
		return 0, v
	}
	return c.roundTrip(ctx, http.MethodGet, "http://"+api.api+"/api/v3/sessions/"+id, readToken, "", "")
}

// api returns one of the slots that have an API, whether it runs or not; nil if there is none.
func (c *client) api() *slot {
	var apis []*slot
	for _, s := range c.run.allSlots() {
		if s.api != "" {
			apis = append(apis, s)
		}
	}
	if len(apis) == 0 {
		return nil
	}
	return apis[c.rng.IntN(len(apis))]
}

const jsonType = "application/json"

// ask sends an intent and records it and its answer.
func (c *client) ask(ctx context.Context, api *slot, about, what, token, body string) (status int, session string) {
	return c.send(ctx, api, about, what, token, jsonType, body)
}

func (c *client) send(ctx context.Context, api *slot, about, what, token, contentType, body string) (int, string) {
	if api == nil || ctx.Err() != nil {
		return 0, ""
	}
	n := c.number.Add(1)
	c.run.record(history.Event{Kind: history.Asked, N: n, Node: api.name, Session: about, Reason: what})
	status, v := c.roundTrip(ctx, http.MethodPost, "http://"+api.api+"/api/v3/intents", token, contentType, body)
	e := history.Event{Kind: history.Answered, N: n, Node: api.name, Session: v.SessionID, Reason: strconv.Itoa(status)}
	if status == 0 {
		e.Reason = "none"
	}
	if what == "stop" {
		e.Session = ""
	}
	c.run.record(e)
	return status, v.SessionID
}

// roundTrip sends a request; status 0: there was no whole answer.
func (c *client) roundTrip(ctx context.Context, method, url, token, contentType, body string) (status int, v view) {
	ctx, cancel := context.WithTimeout(ctx, c.run.cfg.TTL/4)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewBufferString(body))
	if err != nil {
		return 0, v
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, v
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return 0, v
	}
	if resp.StatusCode < 300 && json.Unmarshal(text, &v) != nil {
		return 0, v
	}
	return resp.StatusCode, v
}
