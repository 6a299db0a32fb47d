// Package client is who wants something in a storm of intents: for each service one client that starts a session, asks again
// elsewhere, conflicts with itself, stops it and begins anew, beside the proxies. What it asked and what it was told is
// recorded: the clients are a witness of I1 to I6. The engines lend them time and a network.
package client

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// Tokens of the clients.
const (
	WriteToken = "storm-writer"
	ReadToken  = "storm-reader"
)

// stream is that of the clients' randomness.
const stream = 1 << 32

// World is what an engine lends to one line of actions. Its methods block.
type World interface {
	// Wait lets time pass; false if the run is over.
	Wait(time.Duration) bool
	// Since is how long the run has lasted.
	Since() time.Duration
	// Go runs f beside this, with a world of its own.
	Go(f func(World))
	// Record stamps and records.
	Record(history.Event)
	// APIs names the slots that have an API, whether it runs or not.
	APIs() []string
	// Send sends a request to the API of a slot; status 0: there was no whole answer.
	Send(api string, r *Request) (status int, body []byte)
}

// Request is one request of a client.
type Request struct {
	Method, Path, Token, ContentType, Body string
}

// Config is what all clients of a run share. Durations are those of the run.
type Config struct {
	Seed      uint64
	TTL, Poll time.Duration
	Number    func() int64 // of requests: counts from 1
}

// Patience is how long a client waits for an answer.
func (c *Config) Patience() time.Duration { return c.TTL / 4 }

// Service is the reference of the service that client i asks for.
func Service(i int) string { return fmt.Sprintf("1:0:19:%X:3FB:1:C00000:0:0:0", i+1) }

// Live is the life of the client of service i. It returns when the run is over.
func Live(w World, cfg *Config, i int) {
	c := &client{World: w, cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, stream+uint64(i))), service: Service(i)}
	c.live()
}

// client is the client of one service. It belongs to one goroutine.
type client struct {
	World
	cfg     *Config
	rng     *rand.Rand
	service string
}

// chance is true once in n times.
func (c *client) chance(n int) bool { return c.rng.IntN(n) == 0 }

// wait waits for lo to hi poll intervals; false if the run is over.
func (c *client) wait(lo, hi float64) bool {
	return c.Wait(time.Duration((lo + c.rng.Float64()*(hi-lo)) * float64(c.cfg.Poll)))
}

// live is the client's life: a session after another.
func (c *client) live() {
	if !c.wait(0, 4) {
		return
	}
	for alive := true; alive; alive = c.wait(0.5, 4) {
		if c.chance(8) {
			c.misbehave()
		}
		c.watchOne()
	}
}

// watchOne starts a session, lives with it and stops it.
func (c *client) watchOne() {
	s := start{Service: c.service, Profile: "hd"}
	if c.chance(4) {
		c.alsoAsk(s)
	}
	id, ok := c.start(s)
	if !ok || c.follow(id, runningOrEnded) != "RUNNING" {
		return
	}
	c.wait(0.5, 3)
	switch {
	case c.chance(4): // the same again: it runs already
		c.alsoAsk(s)
	case c.chance(3): // another profile: it conflicts
		c.conflict(start{Service: c.service, Profile: "sd"})
	case c.chance(3): // catch-up of the same service, with a key of its own
		c.conflict(start{Service: c.service, Profile: "hd", StartMs: 1_700_000_000_000 + c.cfg.Number()*1000})
	}
	c.wait(0.5, 3)
	if c.stop(id) {
		c.follow(id, ended)
	}
}

// conflict starts what cannot run beside what runs, and waits for what becomes of it.
func (c *client) conflict(s start) {
	id, ok := c.start(s)
	if ok && c.follow(id, runningOrEnded) == "RUNNING" { // the other one had ended meanwhile
		c.stop(id)
	}
}

// alsoAsk sends the same start to several APIs at once, and does not care for the answers.
func (c *client) alsoAsk(s start) {
	for range 1 + c.rng.IntN(3) {
		api := c.api()
		c.Go(func(w World) {
			beside := client{World: w, cfg: c.cfg} // it draws nothing
			beside.ask(api, s.payload(), "start", WriteToken, s.body())
		})
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
func (c *client) start(s start) (id string, ok bool) {
	for {
		switch status, id := c.ask(c.api(), s.payload(), "start", WriteToken, s.body()); {
		case status == http.StatusAccepted:
			return id, true
		case status >= 400 && status < 500:
			return "", false
		}
		if !c.wait(0.05, 0.5) {
			return "", false
		}
	}
}

func (c *client) stop(id string) bool {
	for {
		status, _ := c.ask(c.api(), id, "stop", WriteToken, fmt.Sprintf(`{"type":"stream.stop","sessionId":%q}`, id))
		if status >= 200 && status < 500 {
			return status == http.StatusAccepted
		}
		if !c.wait(0.05, 0.5) {
			return false
		}
	}
}

// misbehave sends what must be refused. Each asks for what nobody else asks for.
func (c *client) misbehave() {
	s := start{Service: fmt.Sprintf("bad:%d", c.cfg.Number()), Profile: "hd"}
	body, token, contentType := s.body(), WriteToken, jsonType
	var what string
	switch c.rng.IntN(9) {
	case 0:
		what, token = "no token", ""
	case 1:
		what, token = "wrong token", "storm-writes"
	case 2:
		what, token = "wrong scope", ReadToken
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
	c.send(c.api(), s.payload(), "bad "+what, token, contentType, body)
}

// States that a client waits for.
func runningOrEnded(state string) bool { return state == "RUNNING" || state == "ENDED" }
func ended(state string) bool          { return state == "ENDED" }

// followFor is how many TTLs a client follows a session before it gives up on it.
const followFor = 4

// follow asks for the session's state until it is one that is waited for, and returns it; "" if the session is not known, the
// run is over, or the client has waited for long enough.
func (c *client) follow(id string, enough func(string) bool) string {
	last, began := "", c.Since()
	for pause := 0.05; c.Since()-began < followFor*c.cfg.TTL; pause = min(pause*2, 1) {
		status, view := c.state(id)
		now := strings.TrimSpace(view.State + " " + view.Reason)
		if status == http.StatusNotFound {
			now = "gone"
		}
		if now != last && now != "" {
			c.Record(history.Event{Kind: history.Seen, Session: id, Reason: now})
			last = now
		}
		if enough(view.State) {
			return view.State
		}
		if status == http.StatusNotFound || !c.wait(pause/2, pause) {
			return ""
		}
	}
	return ""
}

// view is what the API tells of a session.
type view struct {
	SessionID string `json:"sessionId"`
	State     string `json:"state"`
	Reason    string `json:"reason"`
}

func (c *client) state(id string) (status int, v view) {
	api := c.api()
	if api == "" {
		return 0, v
	}
	return c.roundTrip(api, &Request{Method: http.MethodGet, Path: "/api/v3/sessions/" + id, Token: ReadToken})
}

// api returns one of the slots that have an API; "" if there is none.
func (c *client) api() string {
	apis := c.APIs()
	if len(apis) == 0 {
		return ""
	}
	return apis[c.rng.IntN(len(apis))]
}

const jsonType = "application/json"

// ask sends an intent and records it and its answer.
func (c *client) ask(api string, about, what, token, body string) (status int, session string) {
	return c.send(api, about, what, token, jsonType, body)
}

func (c *client) send(api string, about, what, token, contentType, body string) (int, string) {
	if api == "" {
		return 0, ""
	}
	n := c.cfg.Number()
	c.Record(history.Event{Kind: history.Asked, N: n, Node: api, Session: about, Reason: what})
	status, v := c.roundTrip(api, &Request{http.MethodPost, "/api/v3/intents", token, contentType, body})
	e := history.Event{Kind: history.Answered, N: n, Node: api, Session: v.SessionID, Reason: strconv.Itoa(status)}
	if status == 0 {
		e.Reason = "none"
	}
	if what == "stop" {
		e.Session = ""
	}
	c.Record(e)
	return status, v.SessionID
}

// roundTrip sends a request and reads its answer; status 0: there was no whole one.
func (c *client) roundTrip(api string, r *Request) (status int, v view) {
	status, text := c.Send(api, r)
	if status != 0 && status < 300 && json.Unmarshal(text, &v) != nil {
		return 0, v
	}
	return status, v
}
