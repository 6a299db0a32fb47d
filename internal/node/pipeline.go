package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

type tuning struct {
	session, service, slot string
	fence, serviceFence    int64
}

// receiver makes pipelines. Each is one request to the slot, whose answer lasts as long as the slot serves it.
type receiver struct {
	out      *output
	instance string
	target   *url.URL // nil: a dry run
	http     *http.Client
	pause    atomic.Bool // the next pipeline stops the process between check and send
}

// pipeline is a session's use of its slot. It implements worker.Pipeline.
type pipeline struct {
	*receiver
	tuning
	stop   chan struct{}
	once   sync.Once
	cancel context.CancelFunc
	body   io.ReadCloser
	ctx    context.Context // ends with the leases
}

func (r *receiver) pipeline(t tuning) *pipeline {
	return &pipeline{receiver: r, tuning: t, stop: make(chan struct{})}
}

const answerWithin = time.Second

// Start makes the slot serve the session.
func (p *pipeline) Start(ctx context.Context, _ int64) error {
	p.ctx = ctx
	if p.target == nil {
		return nil
	}
	// The answer outlives ctx until the slot has released the session, so the request needs its own context.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := func() bool { return true }
	if paused, err := p.paused(); err != nil {
		cancel()
		return err
	} else if !paused {
		stop = context.AfterFunc(ctx, cancel)
	}
	late := time.AfterFunc(answerWithin, cancel)
	resp, err := p.send(life, http.MethodPost)
	switch {
	case err == nil && resp.StatusCode == http.StatusConflict:
		err = errFenced
	case err == nil && resp.StatusCode != http.StatusOK:
		err = fmt.Errorf("slot %s answered %d", p.slot, resp.StatusCode)
	case err == nil && !(stop() && late.Stop()):
		err = errTooLate
	}
	if err != nil {
		cancel()
		if resp != nil {
			_ = resp.Body.Close()
		}
		return err
	}
	p.cancel, p.body = cancel, resp.Body
	return nil
}

// paused stops the process, if requested, between the check of the leases and the send, and reports whether it did. See pausedPoll.
func (p *pipeline) paused() (bool, error) {
	if !p.pause.CompareAndSwap(true, false) {
		return false, nil
	}
	return true, p.out.pause("tuner:"+p.slot, p.fence)
}

// errTooLate means that the slot answered after the leases or answerWithin had ended.
var errTooLate = errors.New("the slot answered too late")

// errEnded means that the slot stopped serving without a request.
var errEnded = errors.New("the slot ended the pipeline")

// Wait returns once the slot no longer serves the session.
func (p *pipeline) Wait() error {
	if p.target == nil {
		select {
		case <-p.stop:
		case <-p.ctx.Done():
		}
		return nil
	}
	defer p.cancel()
	eof := make(chan struct{})
	go func() {
		defer close(eof)
		_, _ = io.Copy(io.Discard, p.body)
	}()
	defer func() { p.cancel(); <-eof; _ = p.body.Close() }()
	select {
	case <-eof:
		return errEnded
	case <-p.stop:
	case <-p.ctx.Done():
	}
	return p.letGo(eof)
}

const askAgain = 100 * time.Millisecond

// letGo asks the slot to stop serving the session until the slot confirms it or ends by itself. The leases must not be released before.
// After its StopTimeout, the worker lets them expire. Once the trust window has ended, letGo sends only one request.
func (p *pipeline) letGo(ended <-chan struct{}) error {
	for {
		err := p.askToLetGo()
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return nil
		case <-p.ctx.Done():
			return err
		case <-time.After(askAgain):
		}
	}
}

func (p *pipeline) askToLetGo() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), answerWithin)
	defer cancel()
	resp, err := p.send(ctx, http.MethodDelete)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	return failed("the slot", resp)
}

// Stop asks the slot to stop serving the session.
func (p *pipeline) Stop() { p.once.Do(func() { close(p.stop) }) }

func (p *pipeline) send(ctx context.Context, method string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.target.JoinPath("tune", p.slot).String(), nil)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"X-Instance": p.instance, "X-Session": p.session, "X-Service": p.service,
		"X-Fence": strconv.FormatInt(p.fence, 10), "X-Service-Fence": strconv.FormatInt(p.serviceFence, 10),
	} {
		req.Header.Set(name, value)
	}
	return p.http.Do(req)
}
