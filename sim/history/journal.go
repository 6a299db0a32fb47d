package history

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// JournalName is the file in a run's folder with the events so far, unsorted. It exists until the history is saved, so a killed run
// leaves it behind.
const JournalName = "history.partial.jsonl"

// journal writes a Recorder's events as they arrive. The Recorder's lock guards it.
type journal struct {
	path string
	file *os.File
	buf  *bufio.Writer
	line []byte
	err  error
}

// ErrUnfinished reports a run that ended before its history was saved. The reader got the events of its journal.
var ErrUnfinished = errors.New("history: the run was ended before its history was saved")

// Journal also writes the recorded events to the run's folder, until EndJournal.
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

// FlushJournal writes all events so far to the file. Without a journal it does nothing.
func (r *Recorder) FlushJournal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.journal; j != nil && j.err == nil {
		j.err = j.buf.Flush()
	}
}

// EndJournal ends the journal, and removes its file if the history was saved. It returns the first error of writing the journal.
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

// isJournal reports whether the file's events are in recording order, not in order of T.
func isJournal(file string) bool { return strings.HasSuffix(file, JournalName) }

// inOrder yields the events of a journal in order of time, and returns ErrUnfinished after them.
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
