package explore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"

	"github.com/leasestorm/leasestorm/internal/files"
	"github.com/leasestorm/leasestorm/sim"
)

// SeedsHash is a hash of seeds and the sums of their histories that does not depend on their order, so that shards added up have
// that of the whole. It tells two programs apart, or a shard that was damaged; it keeps nobody from forging one.
type SeedsHash [4]uint64

func (h *SeedsHash) add(seed uint64, sum string) {
	digest := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, seed), sum...))
	var o SeedsHash
	for i := range o {
		o[i] = binary.BigEndian.Uint64(digest[8*i:])
	}
	h.join(o)
}

// join adds another's seeds.
func (h *SeedsHash) join(o SeedsHash) {
	carry := uint64(0)
	for i := len(h) - 1; i >= 0; i-- {
		h[i], carry = bits.Add64(h[i], o[i], carry)
	}
}

// String returns 64 hex digits.
func (h SeedsHash) String() string {
	return fmt.Sprintf("%016x%016x%016x%016x", h[0], h[1], h[2], h[3])
}

// MarshalText implements encoding.TextMarshaler.
func (h SeedsHash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *SeedsHash) UnmarshalText(text []byte) error {
	var b [32]byte
	if n, err := hex.Decode(b[:], text); err != nil || n != len(b) || len(text) != hex.EncodedLen(n) {
		return fmt.Errorf("hash %q: want %d hex digits", text, hex.EncodedLen(len(b)))
	}
	for i := range h {
		h[i] = binary.BigEndian.Uint64(b[8*i:])
	}
	return nil
}

// detailMax bounds the text of a failed seed: a panic with its stack.
const detailMax = 64 << 10

// errVersion: the file is of another version of the format, or of what seeds draw.
var errVersion = errors.New("another version")

// writeCoverage replaces the file at path. The file is JSON lines: the coverage, then a line for each seed that failed.
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

// readCoverage reads a file of writeCoverage. With errVersion only its versions and counts are known.
func readCoverage(path string) (c Coverage, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	if err := json.Unmarshal(first, &c); err != nil {
		return c, fmt.Errorf("%s cannot be read: line 1: %w", path, err)
	}
	if c.Version != CoverageVersion || c.Draw != sim.DrawVersion {
		return c, fmt.Errorf("%s has version %d and draws %d (commit %q), this program reads version %d and draws %d (commit %q): %w",
			path, c.Version, c.Draw, c.Commit, CoverageVersion, sim.DrawVersion, sim.Commit(), errVersion)
	}
	c.File = path
	if err := checkRange(c.Seeds, c.Shard); err != nil {
		return c, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	for lines := json.NewDecoder(bytes.NewReader(rest)); ; {
		var s FailedSeed
		switch err := lines.Decode(&s); {
		case errors.Is(err, io.EOF):
			return c, nil
		case err != nil:
			return c, fmt.Errorf("%s cannot be read: behind line %d: %w", path, len(c.Failed)+1, err)
		}
		c.Failed = append(c.Failed, s)
	}
}
