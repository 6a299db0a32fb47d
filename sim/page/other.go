package page

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/writefile"
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

// SaveParting writes the page of a judged run that tells first where it parts from another, as DiffName into its folder, which was opened
// before it was read: where another is at its path now nothing is written (writefile.ErrReplaced). What cannot be made is an error, never a
// panic.
func SaveParting(to *writefile.Dir, r report.Report, p Parting) (err error) {
	dir := to.Path()
	name := filepath.Join(dir, DiffName)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("page: %s cannot be made: %v", name, p)
		}
	}()
	m := build(dir, r)
	p.With = shown(p.With)
	for _, lines := range [][]string{p.Plans, p.Before, p.Here, p.There} {
		for i := range lines {
			lines[i] = plain.Text(plain.Cut(lines[i], lineMax))
		}
	}
	m.Parting = &p
	text, err := compose(m)
	if err == nil {
		err = to.Same()
	}
	if err == nil {
		err = to.Write(DiffName, text)
	}
	if err != nil {
		return fmt.Errorf("page: %s cannot be written: %w", name, err)
	}
	return nil
}

// lineMax is how many bytes of an event's line are shown.
const lineMax = 1000

// copyMax is many times what the smallest run of a storm takes.
const copyMax = 64 << 20

// AddSmaller copies the files of the smallest run that breaks the same into the folder of the run that it was made of, to: from then on the
// page of that run holds it. Both are held since they were made or read: nothing is written where another folder is at the path of to now
// (writefile.ErrReplaced), and nothing is read where another is at that of smaller.
func AddSmaller(to, smaller *writefile.Dir) error {
	err := to.Same()
	var in *writefile.Dir
	if err == nil {
		in, err = to.Folder(SmallerName)
	}
	if err == nil {
		defer in.Close()
		err = smaller.CopyTo(in, FileName, copyMax)
	}
	if err != nil {
		return fmt.Errorf("page: the smaller run cannot be put into %s: %w", filepath.Join(to.Path(), SmallerName), err)
	}
	return nil
}

// smaller is the model of the smallest run that breaks the same, nil where none was looked for or it cannot be read. It is read in a copy:
// the folder that holds it may be another user's, who puts a link to a run that is not his in its place.
func (b *builder) smaller() *model {
	if filepath.Base(b.dir) == SmallerName {
		return nil
	}
	own, err := copied(b.dir)
	if own != "" {
		defer func() { _ = os.RemoveAll(own) }()
	}
	if err != nil {
		return nil
	}
	r, err := report.Load(own)
	if err != nil {
		return nil
	}
	m := build(own, r)
	scenario := filepath.Join(b.dir, SmallerName, "shrunk.yaml")
	m.Head.Commands = [][2]string{{"play it", "simulate --engine virtual --scenario " + plain.Word(scenario)}}
	m.Head.Muted = ""
	return m
}

// copied returns a folder of its own with the files of the smallest run in dir; it is to be removed, if there is one.
func copied(dir string) (own string, err error) {
	outer, err := writefile.OpenDir(dir)
	if err != nil {
		return "", err
	}
	defer outer.Close()
	from, err := outer.Open(SmallerName)
	if err != nil {
		return "", err
	}
	defer from.Close()
	if own, err = os.MkdirTemp("", "leasestorm-smaller-"); err != nil {
		return "", err
	}
	into, err := writefile.OpenDir(own)
	if err != nil {
		return own, err
	}
	defer into.Close()
	return own, from.CopyTo(into, FileName, copyMax)
}
