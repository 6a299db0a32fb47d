package page

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/report"
)

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
