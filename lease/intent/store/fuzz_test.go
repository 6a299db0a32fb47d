package store

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// FuzzRecord reads any record of a session: what is no number is 0, and a record that says a session says it again when read.
func FuzzRecord(f *testing.F) {
	f.Add("id", "1:0:1", "hd", "1700000000000", "RUNNING", "1", "7", "1700000000001")
	f.Add("", "\x00", "", "-1", "?", "", "99999999999999999999", "1e3")
	f.Fuzz(func(t *testing.T, id, service, profile, start, state, stop, fence, created string) {
		fields := map[string]string{
			"id": id, "service": service, "profile": profile, "start": start, "state": state, "stop": stop, "fence": fence, "created": created,
		}
		s := decode(fields)
		number := func(text string, n int64) bool {
			want, err := strconv.ParseInt(text, 10, 64)
			return n == want || err != nil && !errors.Is(err, strconv.ErrRange) && n == 0
		}
		if s.ID != id || s.ServiceRef != service || s.Profile != profile || s.State != intent.State(state) || s.StopAsked != (stop != "") ||
			!number(start, s.StartMs) || !number(fence, s.Fence) {
			t.Fatalf("%q is %+v", fields, s)
		}
		for name, n := range map[string]int64{"start": s.StartMs, "fence": s.Fence, "created": s.CreatedAt.UnixMilli()} {
			fields[name] = strconv.FormatInt(n, 10)
		}
		if again := decode(fields); again != s {
			t.Fatalf("%q is %+v, and read again %+v", fields, s, again)
		}
	})
}

// FuzzReply takes any list for a script's reply: at least as many words as were asked for, or ErrUnavailable.
func FuzzReply(f *testing.F) {
	f.Add("E\nid", 2)
	f.Add("", 0)
	f.Add(":5\n_\n*", 10)
	f.Fuzz(func(t *testing.T, text string, n int) {
		var reply []any
		for word := range strings.SplitSeq(text, "\n") {
			switch word {
			case "_":
				reply = append(reply, nil)
			case "*":
				reply = append(reply, []any{word})
			case ":":
				reply = append(reply, int64(5))
			default:
				reply = append(reply, word)
			}
		}
		words, err := wordsOf(reply, n%20)
		if err != nil && !errors.Is(err, ErrUnavailable) || err == nil && (len(words) < n%20 || len(words) != len(reply)) {
			t.Fatalf("%q: %q, %v", reply, words, err)
		}
		if _, err := wordsOf(any(text), 1); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("%q is no list: %v", text, err)
		}
		if id, exists, err := putReply(reply); err == nil && (exists != (reply[0] == "E") || len(reply) < 2) {
			t.Fatalf("%q: %q, %v", reply, id, exists)
		}
		if s := startOf(text, text, text); s.StartMs < 0 && s.StartMs != -1 && !strings.HasPrefix(text, "-") || s.ServiceRef != text {
			t.Fatalf("%q: %+v", text, s)
		}
	})
}
