package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/leasestorm/leasestorm/sim/audit"
	"github.com/leasestorm/leasestorm/sim/audit/logs"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/page"
)

// auditCounters serves what an audit has counted so far to Prometheus.
type auditCounters struct {
	server *http.Server
	now    atomic.Pointer[auditCount]
	at     time.Time
}

type auditCount struct {
	lines, unread int64
	tallies       []audit.Tally
}

// update makes the numbers of the audit visible, unless that was done a moment ago.
func (c *auditCounters) update(a *audit.Auditor) {
	if c.server == nil || time.Since(c.at) < followEvery {
		return
	}
	c.at = time.Now()
	n := a.Counts()
	c.now.Store(&auditCount{n.Lines, n.Plain + n.Damaged + n.Cut + n.Bare + n.Late, a.Tallies()})
}

func (c *auditCounters) serve(addr string) error {
	if addr == "" {
		return nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	c.now.Store(&auditCount{})
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	c.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = c.server.Serve(listener) }()
	return nil
}

func (c *auditCounters) close() {
	if c.server != nil {
		_ = c.server.Close()
	}
}

var (
	auditLines   = prometheus.NewDesc("leasestorm_audit_lines_total", "Lines of the logs.", nil, nil)
	auditUnread  = prometheus.NewDesc("leasestorm_audit_lines_unread_total", "Lines that could not be judged.", nil, nil)
	auditBreaks  = prometheus.NewDesc("leasestorm_audit_breaks_total", "Breaks of the guarantee.", []string{"guarantee"}, nil)
	auditExcused = prometheus.NewDesc("leasestorm_audit_excused_total", "Late changes that trouble explains.", []string{"guarantee"}, nil)
)

// Describe implements prometheus.Collector.
func (c *auditCounters) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{auditLines, auditUnread, auditBreaks, auditExcused} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *auditCounters) Collect(to chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, n int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	now := c.now.Load()
	send(auditLines, now.lines)
	send(auditUnread, now.unread)
	for _, t := range now.tallies {
		send(auditBreaks, int64(t.Broke), t.ID)
		send(auditExcused, int64(t.Excused), t.ID)
	}
}

// auditHistory writes what the logs say of leases as the history of a run, for its page.
type auditHistory struct {
	dir string // "": none
	to  *history.Writer
	err error
}

func (h *auditHistory) add(a *audit.Auditor, e *logs.Entry) {
	if h.dir == "" || h.err != nil {
		return
	}
	if h.to == nil {
		if h.err = os.MkdirAll(h.dir, 0o755); h.err == nil {
			h.to, h.err = history.Create(filepath.Join(h.dir, history.FileName))
		}
	}
	if ev := a.Event(e); ev.Kind != history.KindUnknown && h.err == nil {
		h.err = h.to.Write(&ev)
	}
}

func (h *auditHistory) save(rep *audited) error {
	if h.dir == "" || h.err != nil || h.to == nil {
		return h.err
	}
	end := history.Event{T: int64(rep.Config.Duration), Kind: history.Phase, Reason: "end"}
	err := errors.Join(h.to.Write(&end), h.to.Close())
	if err == nil {
		err = rep.Save(h.dir)
	}
	if err == nil {
		_, err = page.Save(h.dir, rep.Report, true)
	}
	return err
}
