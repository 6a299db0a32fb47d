package history

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// The journal of a killed run is read in order of time, and reported as incomplete.
func TestJournal(t *testing.T) {
	dir := t.TempDir()
	rec := NewRecorder()
	if err := rec.Journal(dir); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{3, 1, 2} {
		rec.Add(Event{T: at, Kind: Note, Reason: "x"})
	}
	rec.FlushJournal()
	file := filepath.Join(dir, JournalName)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text[:len(text)-5], 0o600); err != nil { // killed in the middle of a line
		t.Fatal(err)
	}
	var got []int64
	var told error
	for e, err := range Open(dir) {
		if err != nil {
			told = err
			break
		}
		got = append(got, e.T)
	}
	if !errors.Is(told, ErrUnfinished) || len(got) != 2 || got[0] != 1 || got[1] != 3 {
		t.Errorf("read %v, then %v", got, told)
	}
	if err := rec.Save(filepath.Join(dir, FileName)); err != nil {
		t.Fatal(err)
	}
	if err := rec.EndJournal(true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the journal is still there beside the history: %v", err)
	}
	for _, err := range Open(dir) {
		if err != nil {
			t.Error(err)
		}
	}
}
