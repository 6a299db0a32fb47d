package explore

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/bits"
	"os"

	"github.com/klauspost/compress/zstd"

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

// A shard's file is JSON lines, compressed: what it covered, then each seed that failed, then this.
type lastLine struct {
	End    bool   `json:"end"`
	SHA256 string `json:"sha256"` // of the lines before
}

// What a shard's file may hold: more than a storm of a day that fails in each seed draws, and no more than fits into memory.
const (
	shardLineMax = 16 << 20
	shardFileMax = 256 << 20
	shardWindow  = 8 << 20

	shardDetailMax = 64 << 10 // a panic's words and stack
	shardDirMax    = 4 << 10
)

// errVersion: the file is of another version of the format, or of what seeds draw.
var errVersion = errors.New("another version")

// writeCoverage writes c to path, in the place of what is there.
func writeCoverage(path string, c *Coverage) error {
	f, err := files.Create(path)
	if err != nil {
		return err
	}
	z, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1))
	if err == nil {
		sum := sha256.New()
		lines := json.NewEncoder(io.MultiWriter(z, sum))
		first := *c
		first.Failed = nil
		err = lines.Encode(first)
		for i := range c.Failed {
			err = errors.Join(err, lines.Encode(c.Failed[i]))
		}
		err = errors.Join(err, json.NewEncoder(z).Encode(lastLine{true, hex.EncodeToString(sum.Sum(nil))}), z.Close())
	}
	return f.Commit(err)
}

// readCoverage reads what writeCoverage wrote. An error names the file; with errVersion versions and numbers are all that was read.
func readCoverage(path string) (Coverage, error) {
	f, err := os.Open(path)
	if err != nil {
		return Coverage{}, err
	}
	defer f.Close()
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(shardWindow)) // parseCoverage reads shardFileMax
	if err != nil {
		return Coverage{}, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	defer z.Close()
	c, err := parseCoverage(z)
	switch {
	case errors.Is(err, errVersion):
		return c, fmt.Errorf("%s has version %d and draws %d (commit %q), this program reads version %d and draws %d (commit %q): %w",
			path, c.Version, c.Draw, c.Commit, CoverageVersion, sim.DrawVersion, sim.Commit(), errVersion)
	case err != nil:
		return c, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	c.File = path
	return c, nil
}

// parseCoverage reads all lines of r and believes none before the last one.
func parseCoverage(r io.Reader) (c Coverage, err error) {
	in := shardLines{Scanner: bufio.NewScanner(io.LimitReader(r, shardFileMax)), sum: sha256.New()}
	in.Buffer(nil, shardLineMax)
	first, err := in.next()
	if err != nil {
		return c, err
	}
	var v struct { // what all versions have
		Version, Draw int
		Commit        string
		Total, Done   uint64
	}
	if err := json.Unmarshal(first, &v); err != nil {
		return c, err
	}
	if v.Version != CoverageVersion || v.Draw != sim.DrawVersion {
		return Coverage{Version: v.Version, Draw: v.Draw, Commit: v.Commit, Total: v.Total, Done: v.Done}, errVersion
	}
	whole := struct {
		*Coverage
		Failed struct{} `json:"failed"` // have lines of their own
	}{Coverage: &c}
	if err := json.Unmarshal(first, &whole); err != nil {
		return c, err
	}
	done, err := c.consistent()
	if err != nil {
		return c, err
	}
	for {
		before := hex.EncodeToString(in.sum.Sum(nil))
		line, err := in.next()
		if err != nil {
			return c, err
		}
		if bytes.HasPrefix(line, []byte(`{"end":true,`)) {
			var last lastLine
			if err := json.Unmarshal(line, &last); err != nil {
				return c, err
			}
			if last.SHA256 != before {
				return c, fmt.Errorf("it was changed: the sha256 of its lines is %s, the last one says %s", before, last.SHA256)
			}
			if in.Scan() {
				return c, errors.New("something stands behind its end")
			}
			return c, errors.Join(in.Err(), c.accounted())
		}
		var s FailedSeed
		if err := json.Unmarshal(line, &s); err != nil {
			return c, err
		}
		if err := c.admit(&s, done); err != nil {
			return c, fmt.Errorf("line %d: %w", in.n, err)
		}
		c.Failed = append(c.Failed, s)
	}
}

// shardLines reads lines and adds them to a sum.
type shardLines struct {
	*bufio.Scanner
	sum hash.Hash
	n   int
}

func (l *shardLines) next() ([]byte, error) {
	switch {
	case l.Scan():
		l.n++
		l.sum.Write(l.Bytes())
		l.sum.Write([]byte{'\n'})
		return l.Bytes(), nil
	case l.Err() != nil:
		return nil, fmt.Errorf("line %d: %w", l.n+1, l.Err())
	case l.n == 0:
		return nil, errors.New("it is empty")
	}
	return nil, fmt.Errorf("it is cut off behind line %d", l.n)
}
