// Package client runs the clients of a storm of intents, one per service. A client starts a session, repeats the request at other APIs,
// starts conflicting sessions, stops its session and begins again. It reaches the APIs beside the proxies. The history records each
// request and answer, so that the clients are a witness of I1 to I6. The engines provide time and the network.
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

// Tokens of the clients. ReadToken may not write.
const (
	WriteToken = "storm-writer"
	ReadToken  = "storm-reader"
)

// stream is the first random stream of the clients; client i uses stream+i.
const stream = 1 << 32

// World is the environment that an engine provides to one goroutine of a client. Its methods block.
type World interface {
	// Wait waits for a duration. It returns false if the run is over.
	Wait(time.Duration) bool
	// Since returns how long the run has lasted.
	Since() time.Duration
	// Go runs f concurrently, with a World of its own.
	Go(f func(World))
	// Record stamps and records an event.
	Record(history.Event)
	// APIs returns the slots that have an API, running or not.
	APIs() []string
	// Send sends a request to the API of a slot; status 0: there was no complete answer.
	Send(api string, r *Request) (status int, body []byte)
}

// Request is an HTTP request of a client.
type Request struct {
	Method, Path, Token, ContentType, Body string
}

// Config is shared by all clients of a run. Durations are those of the run.
type Config struct {
	Seed      uint64
	TTL, Poll time.Duration
	Number    func() int64 // number of the next request, from 1
}

// Patience returns how long a client waits for an answer.
func (c *Config) Patience() time.Duration { return c.TTL / 4 }

// Service returns the reference of the service of client i.
func Service(i int) string { return fmt.Sprintf("1:0:19:%X:3FB:1:C00000:0:0:0", i+1) }

// Live runs the client of service i. It returns when the run is over.
func Live(w World, cfg *Config, i int) {
	c := &client{World: w, cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, stream+uint64(i))), service: Service(i)}
	c.live()
}

// client is not safe for concurrent use.
type client struct {
	World
	cfg     *Config
	rng     *rand.Rand
	service string
}

// chance returns true once in n times.
func (c *client) chance(n int) bool { return c.rng.IntN(n) == 0 }

// wait waits for lo to hi poll intervals. It returns false if the run is over.
func (c *client) wait(lo, hi float64) bool {
	return c.Wait(time.Duration((lo + c.rng.Float64()*(hi-lo)) * float64(c.cfg.Poll)))
}

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
	case c.chance(4): // the same again, which already runs
		c.alsoAsk(s)
	case c.chance(3): // another profile, which conflicts
		c.conflict(start{Service: c.service, Profile: "sd"})
	case c.chance(3): // catch-up of the same service, with a key of its own
		c.conflict(start{Service: c.service, Profile: "hd", StartMs: 1_700_000_000_000 + c.cfg.Number()*1000})
	}
	c.wait(0.5, 3)
	if c.stop(id) {
		c.follow(id, ended)
	}
}

// conflict starts a session that cannot run beside the current one, and follows it to its end.
func (c *client) conflict(s start) {
	id, ok := c.start(s)
	if ok && c.follow(id, runningOrEnded) == "RUNNING" { // the other session ended first
		c.stop(id)
	}
}

// alsoAsk sends the same start one to three times concurrently, and ignores the answers.
func (c *client) alsoAsk(s start) {
	for range 1 + c.rng.IntN(3) {
		api := c.api()
		c.Go(func(w World) {
			beside := client{World: w, cfg: c.cfg} // has no rng, and ask draws nothing
			beside.ask(api, s.payload(), "start", WriteToken, s.body())
		})
	}
}

type start struct {
	Service string
	Profile string
	StartMs int64
}

// payload identifies the start: equal payloads share an idempotency key.
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

// start repeats the request, each time at a random API, until it is accepted. It returns false if the request is refused or the run is
// over.
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

// misbehave sends a request that must be refused, for a service that no other client uses.
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

func runningOrEnded(state string) bool { return state == "RUNNING" || state == "ENDED" }
func ended(state string) bool          { return state == "ENDED" }

// followFor is how many TTLs a client follows a session.
const followFor = 4

// follow polls the session until enough accepts its state, and returns this state. It returns "" if the session is unknown, the run is
// over, or followFor TTLs have passed.
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

// api returns a random slot that has an API; "": there is none.
func (c *client) api() string {
	apis := c.APIs()
	if len(apis) == 0 {
		return ""
	}
	return apis[c.rng.IntN(len(apis))]
}

const jsonType = "application/json"

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

// roundTrip sends a request and decodes its answer; status 0: there was no complete answer.
func (c *client) roundTrip(api string, r *Request) (status int, v view) {
	status, text := c.Send(api, r)
	if status != 0 && status < 300 && json.Unmarshal(text, &v) != nil {
		return 0, v
	}
	return status, v
}
