package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

func drawEvent() *rapid.Generator[Event] {
	word := rapid.OneOf(rapid.SampledFrom([]string{"", "node-3", "a\"b", "back\\slash", "tab\there", "Zürich", "<&>"}),
		rapid.String())
	number := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64())
	return rapid.Custom(func(t *rapid.T) Event {
		return Event{
			T: number.Draw(t, "t"), Kind: Kind(rapid.IntRange(1, int(kindCount)-1).Draw(t, "kind")),
			Node: word.Draw(t, "node"), Instance: word.Draw(t, "instance"), Session: word.Draw(t, "session"),
			Fence: number.Draw(t, "fence"), Until: number.Draw(t, "until"), N: number.Draw(t, "n"),
			Reason: word.Draw(t, "reason"),
		}
	})
}

func TestLineRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawEvent().Draw(t, "event")
		line := AppendLine(nil, &want)
		if !json.Valid(line) {
			t.Fatalf("not JSON: %s", line)
		}
		var d Decoder
		var got Event
		if err := d.Decode(line, &got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Fatalf("%s gave\n%+v, want\n%+v", line, got, want)
		}
	})
}

// TestFastAgreesWithSlow: encoding/json reads a line in the same way as the fast path.
func TestFastAgreesWithSlow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent().Draw(t, "event")
		line := AppendLine(nil, &e)
		if i := rapid.IntRange(0, len(line)-1).Draw(t, "at"); rapid.Bool().Draw(t, "damage") {
			line[i] = rapid.Byte().Draw(t, "byte")
		}
		var d Decoder
		var fast, slow Event
		if !d.fast(line, &fast) {
			return
		}
		if err := d.slow(line, &slow); err != nil {
			t.Fatalf("fast accepts %s, encoding/json does not: %v", line, err)
		}
		if fast != slow {
			t.Fatalf("%s: fast %+v, slow %+v", line, fast, slow)
		}
	})
}

func TestDecodeForeignLines(t *testing.T) {
	for _, c := range []struct {
		line string
		want Event
	}{
		{`{"ev":"lost","reason":"x","t":5}`, Event{T: 5, Kind: Lost, Reason: "x"}},
		{` { "t" : 7, "ev" : "ready", "extra" : [1] } `, Event{T: 7, Kind: Ready}},
		{`{"t":1,"ev":"yawned"}`, Event{T: 1, Kind: KindUnknown, Reason: "yawned"}},
		{`{"t":1,"ev":"note","reason":"a\nb"}`, Event{T: 1, Kind: Note, Reason: "a\nb"}},
		{`{"t":1,"ev":"note","n":9223372036854775807}`, Event{T: 1, Kind: Note, N: 1<<63 - 1}},
	} {
		var d Decoder
		var got Event
		if err := d.Decode([]byte(c.line), &got); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.line, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "null", "{}", `{"t":1}`, `{"ev":"lost"}`, `{"t":"1","ev":"lost"}`, "garbage"} {
		var d Decoder
		var e Event
		if err := d.Decode([]byte(bad), &e); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v, want ErrMalformed", bad, err)
		}
	}
}

func TestKindNamesAreDistinct(t *testing.T) {
	seen := map[string]Kind{}
	for k := range kindCount {
		if k.String() == "" {
			t.Errorf("kind %d has no name", k)
		}
		if other, ok := seen[k.String()]; ok {
			t.Errorf("kinds %d and %d share %q", k, other, k)
		}
		seen[k.String()] = k
	}
}

func collect(t *testing.T, dir string) ([]Event, error) {
	t.Helper()
	var all []Event
	for e, err := range Open(dir) {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

func TestRecorderSortsAndSaves(t *testing.T) {
	r := NewRecorder()
	const writers, each = 8, 3000
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each { // each writer adds its later half first
				at := int64((i + each/2) % each)
				r.Add(Event{T: at, Kind: PollStart, Node: fmt.Sprintf("node-%d", w), Session: "s\"1", N: at * 7})
			}
		})
	}
	wg.Wait()
	if r.Len() != writers*each {
		t.Fatalf("%d long, want %d", r.Len(), writers*each)
	}
	var memory []Event
	for e := range r.Events() {
		memory = append(memory, e)
	}
	if !slices.IsSortedFunc(memory, func(a, b Event) int { return int(a.T - b.T) }) {
		t.Fatal("not sorted by T")
	}
	for _, name := range []string{FileName, FileName + CompressedSuffix} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := r.Save(path); err != nil {
			t.Fatal(err)
		}
		saved, err := collect(t, dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(memory, saved); diff != "" {
			t.Fatalf("%s differs from memory:\n%s", name, diff)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// Events are ordered by time, and those of one instant by their addition, also while more are added.
func TestRecorderKeepsTheOrderOfOneInstant(t *testing.T) {
	const events, instants = 3*chunkLen + 10, 1000
	r := NewRecorder()
	add := func(from int64) iter.Seq2[Event, error] {
		for i := range int64(events) {
			r.Add(Event{T: (from + i) * 7919 % instants, Kind: Note, N: from + i})
		}
		return r.Events()
	}
	first, second := add(0), add(events)
	for all, want := range map[*iter.Seq2[Event, error]]int{&first: events, &second: 2 * events} {
		got, last := 0, Event{T: -1}
		for e := range *all {
			if e.T < last.T || e.T == last.T && e.N < last.N {
				t.Fatalf("%d at %d came before %d at %d", last.N, last.T, e.N, e.T)
			}
			got, last = got+1, e
		}
		if got != want {
			t.Errorf("%d events, want %d", got, want)
		}
	}
}

func TestRecorderSavesTheLinesOfAppendLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent().Draw(t, "event")
		r := NewRecorder()
		r.Add(e)
		parts, names := r.parts()
		quoted := make([][]byte, len(names))
		for i, s := range names {
			quoted[i] = appendQuoted(nil, s)
		}
		if got, want := parts[0][0].append(nil, quoted), AppendLine(nil, &e); !bytes.Equal(got, want) {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	good := `{"t":1,"ev":"ready"}` + "\n"
	for _, c := range []struct {
		name, file, content string
		want                error
		says                []string
		read                int
	}{
		{"missing", "", "", ErrNotFound, []string{"history.jsonl"}, 0},
		{"empty", FileName, "", ErrEmpty, []string{"history.jsonl"}, 0},
		{"cut off", FileName, good + good + `{"t":2,"ev":"lo`, ErrTruncated, []string{"line 3", "2 events"}, 2},
		{"no last newline", FileName, good + `{"t":2,"ev":"lost"}`, nil, nil, 2},
		{"garbage within", FileName, good + "x\n" + good, ErrMalformed, []string{"line 2", "1 events"}, 1},
		{"cut off, compressed", FileName + CompressedSuffix, "\x28\xb5\x2f\xfd", ErrTruncated, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if c.file != "" {
				if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			events, err := collect(t, dir)
			if !errors.Is(err, c.want) || len(events) != c.read {
				t.Fatalf("%d events, %v; want %d, %v", len(events), err, c.read, c.want)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
		})
	}
}

func TestLongLine(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	long := Event{T: 1, Kind: Note, Reason: strings.Repeat("x", 1<<20)}
	for range 3 {
		if err := w.Write(&long); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := collect(t, dir)
	if err != nil || len(got) != 3 || got[2] != long {
		t.Fatalf("%d events, %v", len(got), err)
	}
}

var sample = Event{
	T: 123456789012, Kind: Renewed, Node: "node-3", Instance: "host-1736600000-abcdef", Fence: 1736600000000001,
	Session: "0b9f1c1e-2c55-4f6a-9d1e-0d6f2a1b3c4d", Until: 153456789012,
}

func BenchmarkAppendLine(b *testing.B) {
	var line []byte
	b.ReportAllocs()
	for b.Loop() {
		line = AppendLine(line[:0], &sample)
	}
	b.SetBytes(int64(len(line)))
}

func BenchmarkDecode(b *testing.B) {
	line := AppendLine(nil, &sample)
	var d Decoder
	var e Event
	b.ReportAllocs()
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if err := d.Decode(line, &e); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSaveAndRead measures the cost of writing and reading a line, with a run's number of events.
func BenchmarkSaveAndRead(b *testing.B) {
	const lines = 200_000
	r := NewRecorder()
	for i := range int64(lines) {
		e := sample
		e.T, e.Node = i*1000, fmt.Sprintf("node-%d", i%50)
		e.Session = fmt.Sprintf("0b9f1c1e-2c55-4f6a-9d1e-%012d", i%5000)
		r.Add(e)
	}
	for _, name := range []string{FileName, FileName + CompressedSuffix} {
		path := filepath.Join(b.TempDir(), name)
		in := filepath.Dir(path)
		b.Run("save/"+name, func(b *testing.B) {
			for b.Loop() {
				if err := r.Save(path); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
		b.Run("read/"+name, func(b *testing.B) {
			for b.Loop() {
				n := 0
				for _, err := range Open(in) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != lines {
					b.Fatalf("%d lines", n)
				}
			}
			b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}

// A small file that unpacks to one long line is refused. So is one whose compression needs a large window.
func TestUnpackingIsBounded(t *testing.T) {
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed)
	if err == nil {
		_, err = z.Write(make([]byte, 64*lineMax))
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"line": packed.Bytes(), "window": []byte("\x28\xb5\x2f\xfd\x00\xa8" + strings.Repeat("\x00", 64)), // of 2 GiB
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, FileName+CompressedSuffix), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := collect(t, dir); err == nil || len(got) > 0 {
			t.Errorf("%s: %d events, %v", name, len(got), err)
		}
	}
}

func BenchmarkRecorderAdd(b *testing.B) {
	r := NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		r.Add(sample)
	}
}
