// Package page draws a run. report.html is one file that works offline. It shows which guarantee broke, when, between which instances and
// why, or how close each guarantee came to its limit. Tools read junit.xml and summary.md.
//
// The package reads only a run's saved files. Messages of nodes reach the page as data, and its script sets them as text. The page has
// fixed bounds for terms, faults, events and notes, and names each bound that a run reached.
package page

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/leasestorm/leasestorm/internal/files"
	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/report"
)

// Names in a run's folder.
const (
	FileName    = "report.html"
	SummaryName = "summary.md"
	JUnitName   = "junit.xml"
	DiffName    = "diff.html"
	SmallerName = "smaller" // folder of the smallest run with the same break
)

// Save writes SummaryName and JUnitName of a judged run into its folder, and the page if asPage is set. It reads the history once; the
// page mentions a truncated or missing history. Save never panics, because the verdict must survive. It returns the page's first
// sentence, what broke and why, in printable text.
func Save(dir string, r report.Report, asPage bool) (sentence string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("page: what shows %s cannot be made: %v", dir, p)
		}
	}()
	m := build(dir, r)
	for _, p := range m.Head.Sentence {
		sentence += p.Text
	}
	cases, err := junit(r)
	err = write(dir, JUnitName, cases, err)
	page := ""
	if asPage {
		page = FileName
		text, terr := compose(m)
		err = errors.Join(err, write(dir, page, text, terr))
	}
	text, terr := summary(dir, r, m, page)
	err = errors.Join(err, write(dir, SummaryName, text, terr))
	return sentence, err
}

func write(dir, name string, text []byte, err error) error {
	if err == nil {
		err = files.Write(filepath.Join(dir, name), text)
	}
	if err != nil {
		return fmt.Errorf("page: %s cannot be written: %w", filepath.Join(dir, name), err)
	}
	return nil
}

// build reads the run's history and makes the model, which names the unreadable parts of the history.
func build(in string, r report.Report) *model {
	b := &builder{in: in, r: r, p: r.Params(), m: &model{
		Breaks: []drawing{}, Nodes: []node{}, Sessions: []session{}, Faults: []spell{}, Marks: []mark{},
	}}
	b.m.TTL, b.m.Planned = b.p.TTL.Milliseconds(), b.p.Duration.Milliseconds()
	found := b.broken()
	b.c = newCollector(b.m, b.p, b.spans(found))
	err := b.c.read(history.Open(in))
	b.m.Part = partOf(b.m.Sessions)
	b.order()
	b.kinds()
	b.guarantees()
	b.plan()
	b.config()
	b.draw(found)
	b.head(err)
	b.m.Smaller = b.smaller()
	return b.m
}

// smaller returns the model of the smallest run with the same break; nil if there is none or it cannot be read.
func (b *builder) smaller() *model {
	if filepath.Base(b.in) == SmallerName {
		return nil
	}
	own := filepath.Join(b.in, SmallerName)
	r, err := report.Load(own)
	if err != nil {
		return nil
	}
	m := build(own, r)
	scenario := filepath.Join(own, "shrunk.yaml")
	m.Head.Commands = [][2]string{{"play it", "simulate --engine virtual --scenario " + plain.Word(scenario)}}
	m.Head.Muted = ""
	return m
}
