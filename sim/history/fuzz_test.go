package history

import (
	"errors"
	"strings"
	"testing"
)

// FuzzLine reads any line. An event that can be read is written and read again as the same event. The fast path and encoding/json agree.
func FuzzLine(f *testing.F) {
	for _, line := range []string{
		`{"t":5,"ev":"acquired","node":"node-1","instance":"i","session":"s","fence":3,"until":9,"n":1,"reason":"r"}` + "\n", `{"t":0,"ev":"danced"}`,
		`{"t":-1,"ev":"note","reason":"\u2028é"}`, `{"ev":"note"}`, `{"t":007,"ev":"note"}`, `{"t":1,"ev":"note","fence":99999999999999999999}`,
		`{"t":1,"ev":"note","node":"a","node":"b"}`, `{"T":1,"EV":"note"}`, `{"t":1e3,"ev":"note"}`, "[]", "", "\xff", `{"t":1,"ev":"unknown","reason":""}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var d Decoder
		var e, again Event
		if err := d.Decode(line, &e); err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("%q: %v", line, err)
			}
			return
		}
		if d.fast(line, &again) {
			if err := d.slow(line, &again); err != nil || again != e {
				t.Fatalf("%q is %+v, by encoding/json %+v, %v", line, e, again, err)
			}
		}
		written := AppendLine(nil, &e)
		if err := d.Decode(written, &again); err != nil || again != e {
			t.Fatalf("%q is %+v, written as %q it is %+v, %v", line, e, written, again, err)
		}
	})
}

// FuzzEvent writes any event in one line, which is read as the same event.
func FuzzEvent(f *testing.F) {
	f.Add(int64(5), uint8(Acquired), "node-1", "i", "s", int64(3), int64(9), int64(1), "r")
	f.Add(int64(-1<<63), uint8(KindUnknown), "\n", `"\`, "\u2028", int64(-1), int64(1<<62), int64(-5), "é")
	f.Fuzz(func(t *testing.T, at int64, kind uint8, node, instance, session string, fence, until, n int64, reason string) {
		utf8 := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
		e := Event{
			T: at, Kind: Kind(kind) % kindCount, Node: utf8(node), Instance: utf8(instance), Session: utf8(session),
			Fence: fence, Until: until, N: n, Reason: utf8(reason),
		}
		line := AppendLine(nil, &e)
		if i := strings.IndexByte(string(line), '\n'); i != len(line)-1 {
			t.Fatalf("%+v takes more than one line: %q", e, line)
		}
		var d Decoder
		var got Event
		if err := d.Decode(line, &got); err != nil || got != e {
			t.Fatalf("%+v, written as %q, is %+v, %v", e, line, got, err)
		}
	})
}

// FuzzFile reads any file as a history: to its end, or to an error of a known kind that names the file.
func FuzzFile(f *testing.F) {
	line := `{"t":5,"ev":"note","reason":"r"}` + "\n"
	for _, text := range []string{"", line, line + line[:9], line + "\n" + line, "x\n", line + "[]\n", strings.Repeat("x", 3000)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		events := 0
		err := Read(strings.NewReader(text), "some-file", func(Event, error) bool { events++; return true })
		if err == nil && events == 0 || events > strings.Count(text, "\n")+1 {
			t.Fatalf("%q: %d events, %v", text, events, err)
		}
		if err == nil {
			return
		}
		known := errors.Is(err, ErrEmpty) || errors.Is(err, ErrTruncated) || errors.Is(err, ErrMalformed)
		if !known || !strings.Contains(err.Error(), "some-file") {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
