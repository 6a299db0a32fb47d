package history

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// JournalName is the file in a run's folder to which a run writes its events as they come, in the order in which they were
// told. It is there as long as the history is not saved: a run that was killed leaves it behind.
const JournalName = "history.partial.jsonl"

// journal writes a Recorder's events as they come. The recorder's lock guards it.
type journal struct {
	path string
	file *os.File
	buf  *bufio.Writer
	line []byte
	err  error
}

// ErrUnfinished: the run was ended before its history was saved. What it wrote as it went was read.
var ErrUnfinished = errors.New("history: the run was ended before its history was saved")

// Journal begins to write what is recorded into the run's folder too, until EndJournal.
func (r *Recorder) Journal(dir string) error {
	path := filepath.Join(dir, JournalName)
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("history: cannot write as it goes: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.journal = &journal{path: path, file: f, buf: bufio.NewWriterSize(f, 1<<16)}
	return nil
}

func (j *journal) add(e *Event) {
	if j.err == nil {
		j.line = AppendLine(j.line[:0], e)
		_, j.err = j.buf.Write(j.line)
	}
}

// FlushJournal brings everything recorded so far to the file. It does nothing without a journal.
func (r *Recorder) FlushJournal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.journal; j != nil && j.err == nil {
		j.err = j.buf.Flush()
	}
}

// EndJournal ends the journal, and removes it if the history was saved in its place. The error is the first that writing it
// met.
func (r *Recorder) EndJournal(saved bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.journal
	if j == nil {
		return nil
	}
	r.journal = nil
	if j.err == nil {
		j.err = j.buf.Flush()
	}
	j.err = errors.Join(j.err, j.file.Close())
	if saved {
		j.err = errors.Join(j.err, os.Remove(j.path))
	}
	if j.err != nil {
		return fmt.Errorf("history: as it went: %w", j.err)
	}
	return nil
}

// isJournal reports whether the file's events are in the order in which they were told, not in that of time.
func isJournal(file string) bool { return strings.HasSuffix(file, JournalName) }

// inOrder yields the events of a journal in order of time, and then that it is no whole history.
func inOrder(file string, read func(func(Event, error) bool) error, yield func(Event, error) bool) error {
	rec := NewRecorder()
	err := read(func(e Event, _ error) bool {
		rec.Add(e)
		return true
	})
	if err != nil && !errors.Is(err, ErrTruncated) {
		return err
	}
	for e := range rec.Events() { //nolint:errcheck // always nil
		if !yield(e, nil) {
			return nil
		}
	}
	return fmt.Errorf("%w; %s holds %d events", ErrUnfinished, file, rec.Len())
}
