package zstdfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"
)

const window = 8 << 20

func pack(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	return z.EncodeAll(data, nil)
}

// skippable is a frame of so many bytes that holds nothing, as far as it is read.
func skippable(size uint32) io.Reader {
	head := binary.LittleEndian.AppendUint32([]byte("\x50\x2a\x4d\x18"), size)
	return io.MultiReader(bytes.NewReader(head), io.LimitReader(zeros{}, int64(size)))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// An honest file is read whole, also one that cannot be compressed and one in frames; a hostile one costs what it is worth.
func TestReader(t *testing.T) {
	random := make([]byte, 3<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	nothing := func() io.Reader { return skippable(8) }
	for name, c := range map[string]struct {
		file  io.Reader
		holds int // bytes; -1: refused
	}{
		"nothing":                          {bytes.NewReader(nil), 0},
		"what cannot be compressed":        {bytes.NewReader(pack(t, random)), len(random)},
		"two frames and one of nothing":    {io.MultiReader(bytes.NewReader(pack(t, random)), nothing(), bytes.NewReader(pack(t, random))), 2 * len(random)},
		"much of the same, a little of it": {bytes.NewReader(pack(t, make([]byte, Slack))), Slack},
		"much of the same":                 {bytes.NewReader(pack(t, make([]byte, 16<<20))), -1},
		"much of the same, and a hole":     {io.MultiReader(bytes.NewReader(pack(t, make([]byte, 16<<20))), skippable(1<<31)), -1},
		"a hole of less than the slack":    {skippable(Slack / 2), 0},
		"a hole":                           {skippable(1 << 31), -1},
		"what holds something, and a hole": {io.MultiReader(bytes.NewReader(pack(t, random)), skippable(1<<31)), -1},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := NewReader(c.file, window, 1000)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			n, err := io.Copy(io.Discard, r)
			switch {
			case c.holds >= 0 && (err != nil || n != int64(c.holds)):
				t.Errorf("%d bytes, %v; want %d", n, err, c.holds)
			case c.holds < 0 && !errors.Is(err, ErrSize):
				t.Errorf("%d bytes, %v; want %v", n, err, ErrSize)
			case c.holds < 0 && r.read > 2*Slack+int64(len(random)):
				t.Errorf("%d bytes of the file were read before it was refused", r.read)
			}
		})
	}
}

// Who bounds what he takes himself is given all of it.
func TestReaderOfAnyRatio(t *testing.T) {
	r, err := NewReader(bytes.NewReader(pack(t, make([]byte, 16<<20))), window, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n, err := io.Copy(io.Discard, r); n != 16<<20 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}
