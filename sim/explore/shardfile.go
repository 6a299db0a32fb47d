package explore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/leasestorm/leasestorm/internal/files"
	"github.com/leasestorm/leasestorm/sim"
)

// errVersion means that the file has another format version or another version of the draws.
var errVersion = errors.New("another version")

// writeCoverage replaces the file at path. The file has JSON lines: the coverage, then one line for each failed seed.
func writeCoverage(path string, c *Coverage) error {
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	first := *c
	first.Failed = nil
	err := lines.Encode(first)
	for i := range c.Failed {
		err = errors.Join(err, lines.Encode(c.Failed[i]))
	}
	return errors.Join(err, files.Write(path, text.Bytes()))
}

// readCoverage reads a file of writeCoverage. With errVersion, only its versions and counts are valid.
func readCoverage(path string) (c Coverage, err error) {
	f, err := os.Open(path)
	if err != nil {
		return c, err
	}
	defer f.Close()
	lines := json.NewDecoder(f)
	if err := lines.Decode(&c); err != nil {
		return c, fmt.Errorf("%s cannot be read: line 1: %w", path, err)
	}
	if c.Version != CoverageVersion || c.Draw != sim.DrawVersion {
		return c, fmt.Errorf("%s has version %d and draws %d (commit %q), this program reads version %d and draws %d (commit %q): %w",
			path, c.Version, c.Draw, c.Commit, CoverageVersion, sim.DrawVersion, sim.Commit(), errVersion)
	}
	if err := checkRange(c.Seeds, c.Shard); err != nil {
		return c, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	c.File = path
	for lines.More() {
		var s FailedSeed
		if err := lines.Decode(&s); err != nil {
			return c, fmt.Errorf("%s cannot be read: behind line %d: %w", path, len(c.Failed)+1, err)
		}
		c.Failed = append(c.Failed, s)
	}
	return c, nil
}
