package page

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/history"
)

// fields decodes a message: its numbers, and its texts and messages, by field.
func fields(t *testing.T, of []byte) (numbers map[protowire.Number]uint64, texts map[protowire.Number][][]byte) {
	t.Helper()
	numbers, texts = map[protowire.Number]uint64{}, map[protowire.Number][][]byte{}
	for len(of) > 0 {
		field, kind, n := protowire.ConsumeTag(of)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		of = of[n:]
		switch kind {
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(of)
			numbers[field], of = v, of[max(n, 0):]
		case protowire.BytesType:
			v, n := protowire.ConsumeBytes(of)
			texts[field], of = append(texts[field], v), of[max(n, 0):]
		default:
			t.Fatalf("field %d has type %d", field, kind)
		}
	}
	return numbers, texts
}

// decoded is a trace as Perfetto reads it: each track by its path, with its slices ("term 1000000000 2000000000") and instants in order.
func decoded(t *testing.T, trace []byte) map[string][]string {
	t.Helper()
	names, out, open := map[uint64]string{}, map[string][]string{}, map[uint64][]string{}
	_, all := fields(t, trace)
	for _, packet := range all[tracePacket] {
		numbers, texts := fields(t, packet)
		if numbers[packetSequence] == 0 {
			t.Fatal("a packet is of no sequence")
		}
		for _, d := range texts[packetDescriptor] {
			n, s := fields(t, d)
			name := string(s[trackName][0])
			if parent := n[trackParent]; parent != 0 {
				if names[parent] == "" {
					t.Errorf("the parent of %q is not described before it", name)
				}
				name = names[parent] + "/" + name
			}
			names[n[trackID]], out[name] = name, []string{}
		}
		for _, e := range texts[packetEvent] {
			n, s := fields(t, e)
			id := n[eventTrack]
			track, at := names[id], " "+secondsOf(numbers[packetTime])
			switch n[eventType] {
			case sliceBegin:
				open[id] = append(open[id], string(s[eventName][0])+at)
			case sliceEnd:
				last := len(open[id]) - 1
				out[track] = append(out[track], open[id][last]+at)
				open[id] = open[id][:last]
			case instant:
				out[track] = append(out[track], string(s[eventName][0])+at)
			}
		}
	}
	for id, left := range open {
		if len(left) > 0 {
			t.Errorf("%s: %q do not end", names[id], left)
		}
	}
	return out
}

func secondsOf(ns uint64) string { return strings.TrimSuffix(when(int64(ns)), " s") }

// traced is the trace of a run with two owners.
func traced(t *testing.T) []byte {
	t.Helper()
	dir, r := saved(t, params(), overlapped(noUntil, ""))
	if err := SaveTrace(dir, r); err != nil {
		t.Fatal(err)
	}
	trace, err := os.ReadFile(filepath.Join(dir, TraceName))
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func TestTraceHasTermsPollsAndFaults(t *testing.T) {
	tracks := decoded(t, traced(t))
	for name, want := range map[string][]string{
		"leases/" + lease1 + "/node-1 trusts": {"term 1.000 7.000"},
		"leases/" + lease1 + "/node-2 trusts": {"term 5.000 8.000"},
		"leases/" + lease1 + "/node-1 polls":  {"served 2.000 2.000", "rejected 6.000"},
		"faults/0 blackhole node-1":           {"blackhole 3.000 7.000"},
		"nodes/node-2":                        {"process 0.000 19.000"},
	} {
		if got, there := tracks[name]; !there || !slices.Equal(got, want) {
			t.Errorf("track %s has %q, want %q", name, got, want)
		}
	}
	if !slices.ContainsFunc(tracks["breaks"], func(b string) bool { return b == "G1 5.000" }) {
		t.Errorf("the breaks are %q", tracks["breaks"])
	}
}

// What a node says is printable in a trace too, and a history that is cut off has one.
func TestTraceOfAHostileRun(t *testing.T) {
	dir, r := saved(t, params(), overlapped(noUntil, hostile))
	file := filepath.Join(dir, history.FileName)
	info, err := os.Stat(file)
	if err == nil {
		err = os.Truncate(file, info.Size()-20)
	}
	if err == nil {
		err = SaveTrace(dir, r)
	}
	if err != nil {
		t.Fatal(err)
	}
	trace, err := os.ReadFile(filepath.Join(dir, TraceName))
	if err != nil {
		t.Fatal(err)
	}
	tracks := decoded(t, trace)
	if len(tracks) < 5 {
		t.Errorf("%d tracks", len(tracks))
	}
	for name, events := range tracks {
		if text := name + strings.Join(events, ""); text != plain.Text(text) {
			t.Errorf("%q", text)
		}
	}
}

// The trace is a Trace of perfetto/trace/perfetto_trace.proto, by the numbers of its fields there and not by this package's names for
// them: every byte is part of a field, and every event has what Perfetto drops it without.
func TestTraceIsATrace(t *testing.T) {
	numbers, texts := fields(t, traced(t))
	if len(numbers) != 0 || len(texts) != 1 || len(texts[1]) < 20 {
		t.Fatalf("beside packets it holds %v, %d kinds of field", numbers, len(texts))
	}
	tracks, events := map[uint64]bool{}, 0
	for _, packet := range texts[1] {
		n, s := fields(t, packet)
		if n[10] == 0 || len(s[60])+len(s[11]) != 1 { // trusted_packet_sequence_id; track_descriptor or track_event
			t.Errorf("a packet holds %v and %d texts", n, len(s))
		}
		for _, d := range s[60] {
			n, s := fields(t, d)
			tracks[n[1]] = n[1] != 0 && len(s[2]) == 1 && (n[5] == 0 || tracks[n[5]]) // uuid, name, parent_uuid
		}
		for _, e := range s[11] {
			of, words := fields(t, e)
			events++
			_, timed := n[8]                                                                            // timestamp
			begins := of[9] == 1 || of[9] == 3                                                          // type: TYPE_SLICE_BEGIN, TYPE_INSTANT; 2 is TYPE_SLICE_END
			if !timed || !tracks[of[11]] || of[9] < 1 || of[9] > 3 || begins != (len(words[23]) == 1) { // track_uuid, name
				t.Errorf("an event holds %v and %d names", of, len(words[23]))
			}
		}
	}
	if events < 10 {
		t.Errorf("it has %d events", events)
	}
}
