package audit_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/audit"
	"github.com/leasestorm/leasestorm/sim/audit/logs"
	"github.com/leasestorm/leasestorm/sim/check"
)

// at formats the time of a story, in ms.
func at(ms int) string {
	return time.UnixMilli(1_767_225_600_000 + int64(ms)).UTC().Format(time.RFC3339Nano)
}

func line(ms int, instance, event, rest string) string {
	return fmt.Sprintf(`{"ts":%q,"event":%q,"instance":%q%s}`, at(ms), event, instance, rest) + "\n"
}

func starts(ms int, instance string) string { return line(ms, instance, "epoch", `,"epoch":"run 1"`) }

func acquires(ms int, instance string, fence int) string {
	return line(ms, instance, "acquired",
		fmt.Sprintf(`,"endpoint":"s","fence":%d,"ttl":10000,"redis":%q,"until":%q`, fence, at(ms-1), at(ms-2+9900)))
}

func says(ms int, instance, event string, fence int) string {
	return line(ms, instance, event, fmt.Sprintf(`,"endpoint":"s","fence":%d,"reason":"drain"`, fence))
}

// handover is a log in which b takes over from a, which stops.
var handover = starts(0, "a") + starts(1, "b") + acquires(10, "a", 1) + says(3000, "a", "renewed", 1) + says(4000, "a", "released", 1) +
	acquires(4020, "b", 2) + line(4100, "a", "drained", "") + says(7000, "b", "renewed", 2)

func read(t *testing.T, o audit.Options, texts ...string) (map[string]check.Verdict, audit.Counts) {
	t.Helper()
	a, err := audit.New(o)
	if err != nil {
		t.Fatal(err)
	}
	var in []logs.Input
	for k, log := range texts {
		in = append(in, logs.Input{Name: fmt.Sprint(k), Reader: strings.NewReader(log)})
	}
	r, err := a.Read(in...)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]check.Verdict{}
	for _, v := range r.Verdicts {
		all[v.ID] = v
	}
	return all, a.Counts()
}

// What could not be read makes no pass, and what is there twice no break.
func TestInputs(t *testing.T) {
	slog := strings.NewReplacer(`"ts":`, `"level":"INFO","time":`).Replace(handover)
	mapped := strings.NewReplacer(`"instance":`, `"host":`, `"ts":`, `"@t":`).Replace(handover)
	halves := strings.SplitAfterN(handover, "\n", 5)
	late := strings.Join(halves[4:], "") + says(14_000, "b", "renewed", 2) + strings.Join(halves[:4], "")
	for name, c := range map[string]struct {
		logs   []string
		fields string
		want   check.Outcome // of G1
		count  func(audit.Counts) int64
		n      int64
	}{
		"whole":        {[]string{handover}, "", check.Pass, func(c audit.Counts) int64 { return c.Entries }, 8},
		"slog":         {[]string{slog}, "", check.Pass, func(c audit.Counts) int64 { return c.Entries }, 8},
		"mapped":       {[]string{mapped}, "instance=host,ts=@t", check.Pass, func(c audit.Counts) int64 { return c.Entries }, 8},
		"twice":        {[]string{handover, handover}, "", check.Pass, func(c audit.Counts) int64 { return c.Duplicates }, 8},
		"no JSON":      {[]string{"started\n" + handover}, "", check.Pass, func(c audit.Counts) int64 { return c.Plain }, 1},
		"cut":          {[]string{handover + `{"ts":"2026-01-01T00:`}, "", check.Pass, func(c audit.Counts) int64 { return c.Cut }, 1},
		"damaged":      {[]string{`{"event":"acquired","instance":"c` + "\n" + handover}, "", check.Unknown, func(c audit.Counts) int64 { return c.Damaged }, 1},
		"late":         {[]string{late}, "", check.Unknown, func(c audit.Counts) int64 { return c.Late }, 4},
		"rotated":      {[]string{strings.Join(halves[4:], ""), strings.Join(halves[:4], "")}, "", check.Pass, func(c audit.Counts) int64 { return c.Late }, 0},
		"missing file": {[]string{handover + line(8000, "b", "acquireFailed", `,"endpoint":"x","reason":"held","owner":"c"`)}, "", check.Unknown, func(c audit.Counts) int64 { return c.Unnamed }, 1},
		"empty file":   {[]string{handover, "hello\n"}, "", check.Unknown, func(c audit.Counts) int64 { return c.Plain }, 1},
	} {
		all, counts := read(t, audit.Options{Fields: c.fields}, c.logs...)
		if v := all["G1"]; v.Verdict != c.want || c.count(counts) != c.n {
			t.Errorf("%s: %s, want %s: %s (%+v)", name, v.Verdict, c.want, v.Detail, counts)
		}
	}
}

// A break is one only if neither an error of the clocks nor a deleted key explains it.
func TestClocks(t *testing.T) {
	two := starts(0, "a") + starts(1, "b") + acquires(10, "a", 1) + says(3000, "a", "renewed", 1) + acquires(5000, "b", 2) +
		says(6000, "a", "renewed", 1) + says(9000, "a", "renewed", 1) + says(9100, "b", "renewed", 2)
	bare := strings.ReplaceAll(two, `"redis"`, `"_"`)
	deleted := starts(0, "a") + starts(1, "b") + acquires(10, "a", 1) + acquires(9500, "b", 2) + says(9920, "a", "lost", 1) +
		says(12_000, "b", "renewed", 2)
	for _, c := range []struct {
		log   string
		error time.Duration
		want  check.Outcome
	}{{two, 50 * time.Millisecond, check.Fail}, {bare, 50 * time.Millisecond, check.Fail}, {bare, 10 * time.Second, check.Unknown},
		{deleted, 50 * time.Millisecond, check.Unknown}} {
		if all, _ := read(t, audit.Options{ClockError: c.error}, c.log); all["G1"].Verdict != c.want {
			t.Errorf("with %v: %s, want %s: %s", c.error, all["G1"].Verdict, c.want, all["G1"].Detail)
		}
	}
	if all, _ := read(t, audit.Options{}, handover+acquires(9000, "c", 2)); all["G3"].Verdict != check.Fail {
		t.Errorf("one fence twice: %s: %s", all["G3"].Verdict, all["G3"].Detail)
	}
}

// growing is a log of which one part is written after the other.
type growing struct {
	parts []string
	rest  string
}

func (g *growing) Read(b []byte) (int, error) {
	n := copy(b, g.rest)
	if g.rest = g.rest[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// A break is told while the log grows, within a TTL of its time.
func TestFollow(t *testing.T) {
	g := &growing{parts: []string{
		starts(0, "a") + starts(1, "b") + acquires(10, "a", 1), says(3000, "a", "renewed", 1) + acquires(5000, "b", 2),
		says(6500, "a", "renewed", 1) + says(8000, "b", "renewed", 2)[:30], says(8000, "b", "renewed", 2)[30:] + says(9000, "a", "renewed", 1),
	}}
	var broke string
	a, err := audit.New(audit.Options{Broken: func(id, text string) { broke += id }, Window: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Follow(func() bool {
		if len(g.parts) == 0 {
			if broke != "G1" {
				t.Errorf("%q is broken, want G1, before the log has ended", broke)
			}
			return false
		}
		g.rest, g.parts = g.parts[0], g.parts[1:]
		return true
	}, logs.Input{Name: "log", Reader: g})
	if err != nil {
		t.Error(err)
	}
}
