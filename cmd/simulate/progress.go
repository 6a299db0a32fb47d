package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/leasestorm/leasestorm/sim"
)

// plainEvery is the interval of lines without a terminal, while the progress does not change.
const plainEvery = 10 * time.Second

const barWidth = 16

// progress shows the progress of a run: a bar on a terminal, elsewhere an occasional line.
type progress struct {
	mu    sync.Mutex
	out   io.Writer
	bar   *progressbar.ProgressBar // nil: plain lines
	room  int                      // columns for the text beside the bar
	last  time.Duration            // elapsed time at the last plain line
	phase string
	fault string

	warned bool // the overload of the host has been reported
}

func newProgress(out io.Writer, total time.Duration) *progress {
	out = below(out) // the output is the program's own text, except for the validated plan
	p := &progress{out: out, last: -plainEvery}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		width, _, err := term.GetSize(int(f.Fd()))
		if err != nil || width <= 0 {
			width = 80
		}
		p.room = width - barWidth - len("100% || ") - 1 // a wrapped line would be drawn again and again
		p.bar = progressbar.NewOptions64(total.Milliseconds(), progressbar.OptionSetWriter(out),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
			progressbar.OptionSetWidth(barWidth), progressbar.OptionUseANSICodes(true),
			progressbar.OptionShowDescriptionAtLineEnd())
	}
	return p
}

func (p *progress) show(m sim.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.Phase == "end" {
		return // the verdict follows
	}
	p.warn(m.Overload)
	if p.bar != nil {
		p.bar.ChangeMax64(max(1, m.Total.Milliseconds()))
		text := sentence(m)
		p.bar.Describe(text[:max(0, min(len(text), p.room))])
		_ = p.bar.Set64(min(m.Elapsed, m.Total).Milliseconds()) // a closed terminal must not stop the run
		return
	}
	changed := m.Phase != p.phase || (m.Fault != p.fault && m.Fault != "")
	p.phase, p.fault = m.Phase, m.Fault
	if !changed && m.Elapsed-p.last < plainEvery {
		return
	}
	p.last = m.Elapsed
	fmt.Fprintf(p.out, "%7s  %s\n", m.Elapsed.Round(100*time.Millisecond), sentence(m))
}

func (p *progress) warn(overload string) {
	if overload == "" || p.warned {
		return
	}
	p.warned = true
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	fmt.Fprintf(p.out, "note: %s\n", overload)
}

func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

func sentence(m sim.Progress) string {
	s := fmt.Sprintf("%-5s  %d nodes alive  %d challenges  %d polls, %d refused, %d overlapping", m.Phase, m.Alive, m.Challenges,
		m.Polls, m.Rejected, m.Violations)
	if m.Fault != "" {
		s += "  now: " + m.Fault
	}
	return s
}
