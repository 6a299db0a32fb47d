package logentry

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Every Tell has an entry, and entries of leases have the fields that G12 requires: instance, endpoint, fence and reason.
func TestEveryTellHasAnEntry(t *testing.T) {
	for k := core.TellAcquired; k <= core.TellDrained; k++ {
		_, message, ok := Head(&core.Tell{Kind: k})
		if !ok || message == "" || Event(k) == "" {
			t.Errorf("tell %d has no entry", k)
			continue
		}
		tell := core.Tell{Kind: k, ID: "s", Fence: 7, Cause: core.CauseNoAnswer, Text: "i/o timeout", Owner: "o",
			Wait: 5 * core.Millisecond, TTL: 30 * core.Second}
		if k > core.TellKept {
			tell.ID, tell.Fence = "", 0
		}
		fields := Fields(nil, "i", &tell)
		want := []Field{
			{Key: "event", Text: Event(k)}, {Key: "instance", Text: "i"}, {Key: "reason", Text: "no answer"}, {Key: "owner", Text: "o"},
		}
		switch k {
		case core.TellEpoch, core.TellRejected:
			want = append(want, Field{Key: "epoch", Text: "i/o timeout"})
		case core.TellHeard, core.TellAccepting: // the beginning has the entry
		default:
			want = append(want, Field{Key: "error", Text: "i/o timeout"})
		}
		if k <= core.TellKept {
			want = append(want, Field{Key: "endpoint", Text: "s"}, Field{Key: "fence", Kind: Number, Number: 7})
		} else {
			want = append(want, Field{Key: "wait", Kind: Number, Number: 5})
		}
		if k == core.TellAcquired {
			want = append(want, Field{Key: "ttl", Kind: Number, Number: 30_000})
		}
		slices.SortFunc(fields, byKey)
		slices.SortFunc(want, byKey)
		if !slices.Equal(fields, want) {
			t.Errorf("the entry of %q has %+v, wanted %+v", Event(k), fields, want)
		}
	}
	if _, _, ok := Head(&core.Tell{Kind: core.TellDrained + 1}); ok || Event(0) != "" {
		t.Error("what is no tell has an entry")
	}
	if _, message, _ := Head(&core.Tell{Kind: core.TellEpoch, Cause: core.CauseOperator, Wait: 1}); !strings.Contains(message, "An operator") {
		t.Errorf("the entry of an operator's epoch: %q", message)
	}
}

// docs/log.md lists every entry with its level.
func TestEveryEntryIsDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "log.md"))
	if err != nil {
		t.Fatal(err)
	}
	for k := core.TellAcquired; k <= core.TellDrained; k++ {
		level, _, _ := Head(&core.Tell{Kind: k})
		if row := fmt.Sprintf("\n| `%s` | %s |", Event(k), level); !strings.Contains(string(doc), row) {
			t.Errorf("docs/log.md has no row that begins with %q", strings.TrimSpace(row))
		}
	}
}

func byKey(a, b Field) int { return strings.Compare(a.Key, b.Key) }

// Empty fields are omitted: a renewal's entry is the most frequent one.
func TestFieldsSaySomething(t *testing.T) {
	fields := Fields(nil, "i", &core.Tell{Kind: core.TellRenewed, ID: "s", Fence: 7})
	want := []Field{{Key: "event", Text: "renewed"}, {Key: "instance", Text: "i"}, {Key: "endpoint", Text: "s"},
		{Key: "fence", Kind: Number, Number: 7}}
	if !slices.Equal(fields, want) {
		t.Errorf("%+v", fields)
	}
}

func TestReason(t *testing.T) {
	for _, c := range []struct {
		cause core.Cause
		text  string
		want  string
	}{
		{core.CauseNone, "", ""},
		{core.CauseExpired, "", "expired"},
		{core.CauseNone, "who knows", "who knows"},
		{core.CauseFailed, "OOM", "failed: OOM"},
		{core.CauseNoAnswer, "OOM command not allowed", "refused: OOM command not allowed"},
	} {
		if got := Reason(&core.Tell{Cause: c.cause, Text: c.text}); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// Asserting a lease in a new epoch, without a failed renewal, is no warning, and the epoch is no error.
func TestAssertedIsNoFailure(t *testing.T) {
	tell := core.Tell{Kind: core.TellUncertain, ID: "s", Fence: 7, Cause: core.CauseForgot, Text: "run 1", Again: true}
	level, message, _ := Head(&tell)
	fields := Fields(nil, "i", &tell)
	want := []Field{{Key: "event", Text: "renewFailed"}, {Key: "instance", Text: "i"}, {Key: "endpoint", Text: "s"},
		{Key: "fence", Kind: Number, Number: 7}, {Key: "reason", Text: "redis forgot"}}
	if level != Info || strings.Contains(message, "failed") || !slices.Equal(fields, want) {
		t.Errorf("%v %q %+v", level, message, fields)
	}
}

// The entry of a start without a wait, and of a jump of Redis' clock, says what happened.
func TestHead(t *testing.T) {
	for _, c := range []struct {
		tell core.Tell
		want Level
		says string
		not  string
	}{
		{core.Tell{Kind: core.TellEpoch, Text: "r 1"}, Info, "new epoch", "grants nothing"},
		{core.Tell{Kind: core.TellEpoch, Text: "r 1", Wait: core.Second}, Warn, "restarted", "Bootstrap"},
		{core.Tell{Kind: core.TellClock, Cause: core.CauseFailed, Text: "redis"}, Warn, "Redis' clock", "failed"},
		{core.Tell{Kind: core.TellClock, Cause: core.CauseClock}, Warn, "A clock stepped", "Redis"},
		{core.Tell{Kind: core.TellUncertain, ID: "s"}, Warn, "renewal failed", "again"},
		{core.Tell{Kind: core.TellUncertain, ID: "s", Again: true}, Info, "renewal failed again", "lost"},
		{core.Tell{Kind: core.TellSilent, Text: "OOM command not allowed"}, Warn, "refuses", "not answer"},
		{core.Tell{Kind: core.TellSilent, Text: "EOF"}, Warn, "not answer", "refuses"},
		{core.Tell{Kind: core.TellSilent, Text: "dial tcp 127.0.0.1:1: connect: connection refused"}, Warn, "not answer", "refuses"},
		{core.Tell{Kind: core.TellHeard, Text: "OOM command not allowed"}, Info, "again", "answers"},
	} {
		level, message, _ := Head(&c.tell)
		if level != c.want || !strings.Contains(message, c.says) || strings.Contains(message, c.not) {
			t.Errorf("%+v: %v %q", c.tell, level, message)
		}
	}
	if got := Reason(&core.Tell{Kind: core.TellClock, Cause: core.CauseFailed, Text: "redis"}); got != "redis' clock jumped" {
		t.Errorf("reason %q", got)
	}
}
