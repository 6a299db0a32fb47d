package store

import (
	"errors"
	"testing"
	"time"
)

// What is no ID of a dead letter is refused before Redis is asked: some of it Redis would take for another letter's.
func TestLetterID(t *testing.T) {
	f := setup(t)
	for _, id := range []string{"x", "", "-", "+", "(1-0", "99999999999999999999-0", "1-x", "1-2-3"} {
		if _, err := f.store.Requeue(t.Context(), id, time.Minute); !errors.Is(err, ErrLetterID) {
			t.Errorf("requeue %q: %v", id, err)
		}
		if _, err := f.store.Drop(t.Context(), id); !errors.Is(err, ErrLetterID) {
			t.Errorf("drop %q: %v", id, err)
		}
		if _, err := f.store.DeadLetters(t.Context(), id, 1); id != "" && !errors.Is(err, ErrLetterID) {
			t.Errorf("list from %q: %v", id, err)
		}
	}
	if found, err := f.store.Drop(t.Context(), "1700000000000-0"); found || err != nil {
		t.Errorf("one that is not there: %v, %v", found, err)
	}
}
