package history

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func isFull(r *Recorder) bool {
	select {
	case <-r.Full():
		return true
	default:
		return false
	}
}

// Whoever reaches the target or the Redis of a storm, or is a node of it, may say as much as he likes; what is kept of that has a bound,
// and the error says who it was.
func TestARecorderWithABoundIsFull(t *testing.T) {
	const bound = 256 << 10
	long := strings.Repeat("y", 500)
	for name, tt := range map[string]struct {
		event func(i int) Event
		want  string
	}{
		"values of leases": {func(i int) Event {
			return Event{Kind: RedisGranted, Session: "evil", Instance: long + strconv.Itoa(i)}
		}, "written to Redis (redisGranted)"},
		"the target": {func(i int) Event {
			return Event{Kind: Rejected, Session: "tuner:1", Instance: strconv.Itoa(i) + long}
		}, "requests at the polled target (rejected)"},
		"one long name": {func(int) Event { return Event{Kind: PollStart, Node: "node-3", Session: long} }, "what node-3 says (pollStart)"},
		"what is escaped": {func(int) Event {
			return Event{Kind: Malformed, Node: "node-3", Reason: strings.Repeat("\x01", 200)}
		}, "what node-3 says (malformed)"},
		"short ones": {func(i int) Event { return Event{T: 1 << 60, Kind: Arrived, Session: strconv.Itoa(i), N: 1 << 60} }, "(arrived)"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r, heard := NewRecorder(), 0
			r.Bound(bound)
			r.Hear(func(*Event) { heard++ })
			if err := r.Journal(dir); err != nil {
				t.Fatal(err)
			}
			r.Add(Event{Kind: Phase, Reason: "start"})
			added := 1
			for ; added < 1<<20 && !isFull(r); added++ {
				r.Add(tt.event(added))
			}
			if n := r.Len(); n != added || heard != added {
				t.Errorf("of %d events %d are kept and %d told of", added, n, heard)
			}
			r.Add(tt.event(0))
			if r.Len() != added || heard != added {
				t.Error("a full recorder took one more")
			}
			r.FlushJournal()
			for _, file := range []string{JournalName, FileName} {
				path := filepath.Join(dir, file)
				if file == FileName {
					if err := r.Save(path); err != nil {
						t.Fatal(err)
					}
				}
				if st, err := os.Stat(path); err != nil || st.Size() > bound+1<<13 || st.Size() < bound/8 {
					t.Errorf("%s: %+v, %v; with a bound of %d bytes", file, st, err, bound)
				}
			}
			if err := r.EndJournal(true); err != nil {
				t.Fatal(err)
			}
			if got := r.Filled(); !strings.Contains(got, tt.want) || len(got) > 400 {
				t.Errorf("filled with %q, want %q in it", got, tt.want)
			}
		})
	}
	if r := NewRecorder(); r.Full() != nil || r.Filled() != "" {
		t.Error("a recorder without a bound speaks of one")
	}
}
