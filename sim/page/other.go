package page

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/report"
)

// Parting is the point at which two runs begin to differ. Events are lines, as simulate check prints them.
type Parting struct {
	With   string   `json:"with"`  // the other run
	Parts  bool     `json:"parts"` // false: the runs are equal
	Same   int      `json:"same"`  // number of equal events
	At     int64    `json:"at"`    // ns: this run's first event that differs, or else its last event
	Plans  []string `json:"plans"` // faults that only one run has
	Before []string `json:"before"`
	Here   []string `json:"here"`
	There  []string `json:"there"`
}

// SaveParting writes the page of a judged run as DiffName into the run's folder, with the parting from another run first.
func SaveParting(to string, r report.Report, p Parting) error {
	m := build(to, r)
	p.With = shown(p.With)
	for _, lines := range [][]string{p.Plans, p.Before, p.Here, p.There} {
		for i := range lines {
			lines[i] = plain.Text(plain.Cut(lines[i], lineMax))
		}
	}
	m.Parting = &p
	text, err := compose(m)
	return write(to, DiffName, text, err)
}

const lineMax = 1000

// AddSmaller copies smaller, the folder of the smallest run with the same break, into to, the original run's folder. From then on, the
// original's page contains the smallest run.
func AddSmaller(to, smaller string) error {
	dir := filepath.Join(to, SmallerName)
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.CopyFS(dir, os.DirFS(smaller))
	}
	if err != nil {
		return fmt.Errorf("page: the smaller run cannot be put into %s: %w", dir, err)
	}
	return nil
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
