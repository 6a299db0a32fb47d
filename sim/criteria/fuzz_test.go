package criteria

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// FuzzCriteria reads any list of guarantees. An accepted list has known guarantees, each once, and is read again as it is written.
func FuzzCriteria(f *testing.F) {
	for _, list := range []string{"G1,g5", " e1 ,,I7", "G1,G1", "G99", "", ",", "ı1"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		ids, err := Parse(list)
		if err != nil {
			if !errors.Is(err, ErrUnknown) {
				t.Fatalf("%q: %v", list, err)
			}
			return
		}
		for i, id := range ids {
			if slices.Contains(ids[:i], id) || !strings.Contains(strings.ToUpper(list), id) {
				t.Fatalf("%q is %q", list, ids)
			}
		}
		if again, err := Parse(strings.Join(ids, ",")); err != nil || !slices.Equal(again, ids) || len(ids) == 0 {
			t.Fatalf("%q is %q, and read again %q, %v", list, ids, again, err)
		}
	})
}
