package page

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/report"
)

// Parting is where a run and another part, for its page: events as lines, as simulate check prints them.
type Parting struct {
	With   string   `json:"with"`  // the other run
	Parts  bool     `json:"parts"` // false: they are the same
	Same   int      `json:"same"`  // events that are
	At     int64    `json:"at"`    // ns: of this run's first event that differs, else of the last
	Plans  []string `json:"plans"` // the faults that only one of them has
	Before []string `json:"before"`
	Here   []string `json:"here"`
	There  []string `json:"there"`
}

// SaveParting writes the page of a judged run that tells first where it parts from another, as DiffName into its folder, in
// which it was judged.
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

// lineMax is how many bytes of an event's line are shown.
const lineMax = 1000

// AddSmaller copies the files of the smallest run that breaks the same into the folder of the run that it was made of, to: from then on the
// page of that run holds it.
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

// smaller is the model of the smallest run that breaks the same, nil where none was looked for or it cannot be read.
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
