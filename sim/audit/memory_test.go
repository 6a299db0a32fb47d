package audit_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/audit"
	"github.com/leasestorm/leasestorm/sim/audit/logs"
	"github.com/leasestorm/leasestorm/sim/check"
)

// endless is the log of three instances that own leases for 20 s each. No lease has the name of an earlier one, and each instance is
// followed by another after five minutes.
type endless struct {
	bytes.Buffer
	ms, lines, until int
	heap             func(lines int)
}

func (s *endless) Read(b []byte) (int, error) {
	for s.Len() < len(b) && s.lines < s.until {
		s.round()
	}
	if s.lines >= s.until && s.Len() == 0 {
		s.heap(s.lines)
	}
	return s.Buffer.Read(b)
}

// round writes what happens in a third of a TTL.
func (s *endless) round() {
	const each = 10
	s.ms += 3333
	for k := range 3 {
		name := fmt.Sprintf("i%d-%d", k, s.ms/300_000)
		for n := range each {
			born := s.ms / 20_000
			event, rest := "renewed", ""
			switch {
			case s.ms-3333 < born*20_000:
				event = "acquired"
				rest = fmt.Sprintf(`,"ttl":10000,"redis":%q,"until":%q`, at(s.ms-1), at(s.ms-2+9900))
			case (s.ms+3333)/20_000 > born:
				event = "released"
			}
			s.WriteString(line(s.ms, name, event, fmt.Sprintf(`,"endpoint":"%d-%d-%d","fence":%d%s`, k, n, born, born+1, rest)))
			s.lines++
		}
	}
}

// An audit that follows a log takes no more memory for a longer one. AUDIT_LINES makes it longer.
func TestMemory(t *testing.T) {
	heap := func(lines int) (live uint64) {
		a, err := audit.New(audit.Options{})
		if err != nil {
			t.Fatal(err)
		}
		log := &endless{until: lines, heap: func(lines int) {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			live = m.HeapAlloc
		}}
		r, err := a.Read(logs.Input{Name: "log", Reader: log})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range r.Verdicts {
			if v.Verdict == check.Fail {
				t.Errorf("%s: %s", v.ID, v.Detail)
			}
		}
		return live
	}
	n := int(number("AUDIT_LINES", 240_000))
	began := time.Now()
	short, long := heap(n/2), heap(n)
	t.Logf("%d lines: %d KiB, %d lines: %d KiB, in %v", n/2, short>>10, n, long>>10, time.Since(began))
	if long > short+short/2+1<<20 {
		t.Errorf("%d B after %d lines, %d B after %d", short, n/2, long, n)
	}
}
