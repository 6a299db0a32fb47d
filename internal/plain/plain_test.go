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
		var out strings.Builder
		if n, err := (&Writer{To: &out}).Write([]byte(in)); n != len(in) || err != nil || out.String() != want {
			t.Errorf("%q: %q, want %q (%d, %v)", in, out.String(), want, n, err)
		}
		if got, want := Text(in), strings.NewReplacer("\n", `\u000a`, "\t", `\u0009`).Replace(want); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}

// Escaping does not change the meaning of JSON.
func TestJSONStays(t *testing.T) {
	in := "\x1b\x7f\u009b\u202e\U000e0041é"
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var again string
	if err := json.Unmarshal([]byte(escape(string(data), "")), &again); err != nil || again != in {
		t.Errorf("%q became %q, %v", in, again, err)
	}
}

// fails returns one error a call.
type fails []error

func (f *fails) Write(p []byte) (int, error) {
	err := (*f)[0]
	*f = (*f)[1:]
	return len(p), err
}

func TestWriterKeepsTheFirstError(t *testing.T) {
	first := errors.New("first")
	w := &Writer{To: &fails{nil, first, io.ErrClosedPipe, nil}}
	for _, want := range []error{nil, first, io.ErrClosedPipe, nil} {
		if _, err := w.Write([]byte("xy")); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if !errors.Is(w.Err, first) {
		t.Errorf("kept is %v", w.Err)
	}
}

func TestWord(t *testing.T) {
	for in, want := range map[string]string{
		"reports/storm-42": "reports/storm-42", "a b": "'a b'", "it's": `'it'\''s'`, "$(reboot)": "'$(reboot)'", "`id`": "'`id`'",
		"a\x1b[2J": `'a\u001b[2J'`, "x;y": "'x;y'", "": "''", "\x01$(id)": `'\u0001$(id)'`,
	} {
		if got := Word(in); got != want {
			t.Errorf("Word(%q) = %s, want %s", in, got, want)
		}
	}
}
