package real

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/sim/client"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

// clients implements client.World for a storm of intents, with this host's clock and HTTP beside the proxies.
type clients struct {
	run    *run
	cfg    client.Config
	http   *http.Client
	number atomic.Int64
	all    sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc
}

func (r *run) startClients(ctx context.Context) *clients {
	c := &clients{run: r, http: &http.Client{Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: time.Second}).DialContext,
		MaxIdleConnsPerHost: 64, DisableCompression: true,
	}}}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.cfg = client.Config{Seed: r.cfg.Seed, TTL: r.cfg.TTL, Poll: r.cfg.Poll, Number: func() int64 { return c.number.Add(1) }}
	for i := range r.cfg.Sessions {
		c.all.Go(func() { client.Live(c, &c.cfg, i) })
	}
	return c
}

func (c *clients) close() {
	c.cancel()
	c.all.Wait()
	c.http.CloseIdleConnections()
}

// Wait implements client.World.
func (c *clients) Wait(d time.Duration) bool { return host.Sleep(c.ctx.Done(), d) }

// Since implements client.World.
func (c *clients) Since() time.Duration { return time.Duration(c.run.clock.Now()) }

// Go implements client.World.
func (c *clients) Go(f func(client.World)) { c.all.Go(func() { f(c) }) }

// Record implements client.World.
func (c *clients) Record(e history.Event) { c.run.record(e) }

// APIs implements client.World. After the run it returns none, so that clients send no more requests.
func (c *clients) APIs() []string {
	if c.ctx.Err() != nil {
		return nil
	}
	var names []string
	for _, s := range c.run.allSlots() {
		if s.serves() {
			names = append(names, s.name)
		}
	}
	return names
}

// Send implements client.World.
func (c *clients) Send(api string, r *client.Request) (status int, body []byte) {
	addr := ""
	for _, s := range c.run.allSlots() {
		if s.name == api {
			s.mu.Lock()
			addr = s.api
			s.mu.Unlock()
		}
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.Patience())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.Method, "http://"+addr+r.Path, bytes.NewBufferString(r.Body))
	if err != nil {
		return 0, nil
	}
	if r.Token != "" {
		req.Header.Set("Authorization", "Bearer "+r.Token)
	}
	if r.ContentType != "" {
		req.Header.Set("Content-Type", r.ContentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return 0, nil
	}
	return resp.StatusCode, text
}
