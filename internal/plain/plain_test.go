package plain

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestNothingButText(t *testing.T) {
	for in, want := range map[string]string{
		"node-1 ✓ ±é\n\tx": "node-1 ✓ ±é\n\tx", "\x1b[2Jx": `\u001b[2Jx`, "a\rb\x07\x7f": `a\u000db\u0007\u007f`, "\u009b2J": `\u009b2J`,
		"\u202etxt": `\u202etxt`, "\x9b2J\xff": "\ufffd2J\ufffd", "\U000e0041": `\udb40\udc41`,
	} {
		for step := 1; step <= len(in); step++ { // in pieces of any size
			var out strings.Builder
			w := &Writer{To: &out}
			for rest := in; rest != ""; {
				n := min(step, len(rest))
				if wrote, err := w.Write([]byte(rest[:n])); wrote != n || err != nil {
					t.Fatalf("%d, %v", wrote, err)
				}
				rest = rest[n:]
			}
			if got := out.String(); got != want && !(strings.HasSuffix(in, "\xff") && strings.HasPrefix(want, got)) {
				t.Errorf("%q by %d: %q, want %q", in, step, got, want)
			}
		}
		if got := Text(in); strings.ContainsAny(got, "\n\t\x1b\r\u009b\u202e") || !strings.HasPrefix(got, strings.Split(want, "\n")[0]) {
			t.Errorf("Text(%q) = %q", in, got)
		}
	}
}

// JSON says the same after it was escaped.
func TestJSONStays(t *testing.T) {
	in := "\x1b\x7f\u009b\u202e\U000e0041é"
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if _, err := (&Writer{To: &out}).Write(data); err != nil {
		t.Fatal(err)
	}
	var again string
	if err := json.Unmarshal([]byte(out.String()), &again); err != nil || again != in {
		t.Errorf("%q became %q, %v", in, again, err)
	}
}

func TestWriterTellsErrors(t *testing.T) {
	r, w := io.Pipe()
	gone := errors.New("gone")
	r.CloseWithError(gone)
	if n, err := (&Writer{To: w}).Write([]byte("x")); n != 0 || !errors.Is(err, gone) {
		t.Errorf("%d, %v", n, err)
	}
}

func TestWord(t *testing.T) {
	for in, want := range map[string]string{
		"reports/storm-42": "reports/storm-42", "a b": "'a b'", "it's": `'it'\''s'`, "$(reboot)": "'$(reboot)'", "`id`": "'`id`'",
		"a\x1b[2J": `'a\u001b[2J'`, "x;y": "'x;y'",
	} {
		if got := Word(in); got != want {
			t.Errorf("Word(%q) = %s, want %s", in, got, want)
		}
	}
}

// says fails as it is told, one error a call.
type says struct{ errs []error }

func (s *says) Write(p []byte) (int, error) {
	err := s.errs[0]
	s.errs = s.errs[1:]
	return len(p), err
}

// Of several errors the first is kept, and each is told.
func TestKeptKeepsTheFirst(t *testing.T) {
	first := errors.New("first")
	k := &Kept{To: &says{[]error{nil, first, io.ErrClosedPipe, nil}}}
	for _, want := range []error{nil, first, io.ErrClosedPipe, nil} {
		if n, err := k.Write([]byte("xy")); n != 2 || !errors.Is(err, want) {
			t.Errorf("%d, %v, want %v", n, err, want)
		}
	}
	if !errors.Is(k.Err, first) {
		t.Errorf("kept is %v", k.Err)
	}
}

// rude is an error that panics when asked for its words, and so does what it panics with.
type rude struct{ deep bool }

func (r *rude) Error() string {
	if r.deep {
		panic(r)
	}
	panic("rude")
}

func TestSaidByWhatPanics(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{{io.EOF, "EOF"}, {7, "7"}, {(*rude)(nil), "<nil>"}, {&rude{}, "rude"}, {&rude{true}, "*plain.rude"},
		{strings.Repeat("long", SaidMax), "long"}} {
		if got := Said(c.v); !strings.Contains(got, c.want) || len(got) > SaidMax+len("…") {
			t.Errorf("said %q, want %q in it", got, c.want)
		}
	}
}
