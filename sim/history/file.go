package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/leasestorm/leasestorm/internal/files"
)

// FileName is the name of the history in a run's folder. A compressed history has the suffix CompressedSuffix.
const (
	FileName         = "history.jsonl"
	CompressedSuffix = ".zst"
)

var (
	// ErrNotFound: the folder has no history file.
	ErrNotFound = errors.New("history: no history file")
	// ErrEmpty: the file has no event.
	ErrEmpty = errors.New("history: file is empty")
	// ErrTruncated: the file ends inside a line or a compressed block. The reader got the events before.
	ErrTruncated = errors.New("history: file is cut off")
)

// Writer writes a history file. It is not safe for concurrent use.
type Writer struct {
	path string
	file *files.File
	zst  *zstd.Encoder // nil: plain
	buf  *bufio.Writer
	line []byte
	err  error
}

// Create begins a history file at path, compressed if path ends in ".zst". The file appears at path only at Close.
func Create(path string) (*Writer, error) {
	f, err := files.Create(path)
	if err != nil {
		return nil, fmt.Errorf("history: cannot write %s: %w", path, err)
	}
	w := &Writer{path: path, file: f}
	var sink io.Writer = f
	if strings.HasSuffix(path, CompressedSuffix) {
		if w.zst, err = zstd.NewWriter(f, zstd.WithEncoderConcurrency(1)); err != nil {
			return nil, fmt.Errorf("history: cannot compress %s: %w", path, f.Commit(err))
		}
		sink = w.zst
	}
	w.buf = bufio.NewWriterSize(sink, 1<<18)
	return w, nil
}

// Write appends one event. After an error, every later call and Close return that error.
func (w *Writer) Write(e *Event) error {
	w.line = AppendLine(w.line[:0], e)
	return w.writeLine()
}

func (w *Writer) writeLine() error {
	if w.err == nil {
		_, w.err = w.buf.Write(w.line)
	}
	return w.err
}

// Close finishes the file and moves it to its path. On an error it leaves no file.
func (w *Writer) Close() error {
	if w.err == nil {
		w.err = w.buf.Flush()
	}
	if w.zst != nil {
		if err := w.zst.Close(); w.err == nil {
			w.err = err
		}
	}
	if err := w.file.Commit(w.err); err != nil {
		return fmt.Errorf("history: cannot write %s: %w", w.path, err)
	}
	return nil
}

// Find returns the name of the history in a run's folder, or ErrNotFound.
func Find(dir string) (string, error) {
	for _, name := range []string{FileName, FileName + CompressedSuffix, JournalName} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return name, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%w: %w", ErrNotFound, err)
		}
	}
	return "", fmt.Errorf("%w in %s: it should hold %s or %s%s", ErrNotFound, dir, FileName, FileName, CompressedSuffix)
}

// Open returns the events of the saved history in a run's folder, in the file's order. Each iteration opens and closes the file. The last
// element may be an error: ErrNotFound, ErrEmpty, ErrTruncated, ErrUnfinished or ErrMalformed.
func Open(dir string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := walk(dir, yield); err != nil {
			yield(Event{}, err)
		}
	}
}

func walk(dir string, yield func(Event, error) bool) error {
	name, err := Find(dir)
	if err != nil {
		return err
	}
	f, err := files.Open(dir, name, sizeMax)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	defer f.Close()
	file := filepath.Join(dir, name)
	switch {
	case isJournal(file):
		return inOrder(file, func(each func(Event, error) bool) error { return Read(f, file, each) }, yield)
	case !strings.HasSuffix(file, CompressedSuffix):
		return Read(f, file, yield)
	}
	zst, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(windowMax))
	if err != nil {
		return fmt.Errorf("history: cannot read %s: %w", file, err)
	}
	defer zst.Close()
	unpacked := &io.LimitedReader{R: zst, N: sizeMax}
	err = Read(unpacked, file, yield)
	if unpacked.N <= 0 {
		return fmt.Errorf("%w: %s unpacks to more than %d bytes", ErrMalformed, file, int64(sizeMax))
	}
	return err
}

// lineMax is far more than the longest event needs, a node's reason included.
const lineMax = 1 << 20

// Limits of a history from an untrusted author: its size, packed or not, and its compression window.
const (
	sizeMax   = 16 << 30
	windowMax = 32 << 20
)

// Read yields the events of r until yield returns false. name is the name of r in messages. Read returns nil at the end or if yield
// stopped it. Otherwise the error has the line and the number of events before it.
func Read(r io.Reader, name string, yield func(Event, error) bool) error {
	var (
		d       Decoder
		e       Event
		in      = lines{in: bufio.NewReaderSize(r, 1<<18)}
		decoded int
	)
	for {
		text, err := in.next()
		whole := err == nil
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("%w: %s line %d: more than %d bytes; %d events before it are readable", ErrMalformed, name, in.n, lineMax, decoded)
		case !whole && !errors.Is(err, io.EOF):
			return broken(name, in.n, decoded, err)
		case len(text) == 0 && decoded == 0:
			return fmt.Errorf("%w: %s holds no event", ErrEmpty, name)
		case len(text) == 0:
			return nil
		}
		switch err := d.Decode(text, &e); {
		case err != nil && !whole:
			return fmt.Errorf("%w: %s ends in the middle of line %d; %d events before it are readable", ErrTruncated, name, in.n, decoded)
		case err != nil:
			return fmt.Errorf("%s line %d: %w; %d events before it are readable", name, in.n, err, decoded)
		}
		decoded++
		if !yield(e, nil) || !whole {
			return nil
		}
	}
}

// lines reads lines of up to lineMax bytes.
type lines struct {
	in   *bufio.Reader
	long []byte
	n    int // number of the last line, from 1
}

// next returns the next line, which is valid until the next call. The error is io.EOF at the end, also after a line without a line feed,
// and bufio.ErrBufferFull for a line that is too long.
func (l *lines) next() ([]byte, error) {
	l.n++
	l.long = l.long[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		if len(l.long) == 0 && !errors.Is(err, bufio.ErrBufferFull) {
			return part, err
		}
		l.long = append(l.long, part...)
		if !errors.Is(err, bufio.ErrBufferFull) || len(l.long) > lineMax {
			return l.long, err
		}
	}
}

// broken distinguishes a compressed file that ends early from one that cannot be read.
func broken(name string, lineNo, decoded int, err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) && decoded == 0:
		return fmt.Errorf("%w: %s ends before its first event", ErrTruncated, name)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %s ends in the middle of line %d; %d events before it are readable", ErrTruncated,
			name, lineNo, decoded)
	}
	return fmt.Errorf("history: cannot read %s at line %d (%d events before it are readable): %w", name, lineNo,
		decoded, err)
}
