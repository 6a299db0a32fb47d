package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/core"
)

// replyOf makes a reply of a text: its lines are its elements, as RESP marks them (:1 a number, *  a list, _ nothing).
func replyOf(text string) (reply []any) {
	for line := range strings.SplitSeq(text, "\n") {
		n, err := strconv.ParseInt(strings.TrimPrefix(line, ":"), 10, 64)
		switch {
		case strings.HasPrefix(line, ":") && err == nil:
			reply = append(reply, n)
		case line == "*":
			reply = append(reply, []any{line})
		case line == "_":
			reply = append(reply, nil)
		default:
			reply = append(reply, line)
		}
	}
	return reply
}

// FuzzAnswer takes any reply for that to an op of a few items: it is an answer about each of them, or a failure that says what is
// wrong, after which nothing is known.
func FuzzAnswer(f *testing.F) {
	for _, reply := range []string{
		"7.e\n:0\n:1700000000000000\n:0\nGH\nme\n:30000\n:5\nother\n:-1\n:4", "7.e\n:0\n:17\n:0\nrrl", "7.e\n:500\n:17\n:30000000\nqq", "8.e\n:0\n:17\n:0\nr",
		"7.e\n:0\n:17\n:0\nG\nme\n:1", "7.e\n:0\n:17\n:0\n?", "7.e", "7.e\n:0\n_\n:0\n*", "7.e\n:0\n:17\n:0\n:5", "7.e\n:0\n:17\n:0\nV\n\n:9\n:0",
		"7.e\n:0\n:17\n:0\nH\n" + strings.Repeat("x", 1000) + "\n:9\n:0",
		"7.e\n:9223372036854775807\n:17\n:9223372036854775807\nG\nme\n:9223372036854775807\n:1",
	} {
		f.Add(uint8(core.OpAcquire), 2, reply)
		f.Add(uint8(core.OpRenew), 1, reply)
		f.Add(uint8(core.OpNodes), 1, reply)
	}
	w, err := NewWire(Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, kind uint8, items int, reply string) {
		op := &core.Op{Seq: 9, Kind: core.OpKind(kind), Epoch: "7.e", Items: make([]core.Item, uint(items)%5)}
		a := w.Answer(op, replyOf(reply))
		if a.Seq != op.Seq || len(a.Results) != len(op.Items) || (a.Failure == core.FailNone) != (a.Text == "") {
			t.Fatalf("%q: %+v", reply, a)
		}
		for _, r := range a.Results {
			if r.PTTL < 0 || r.PTTL > spanMax || len(r.Owner) > NameMax+1 || a.Failure != core.FailNone && r != (core.Result{}) {
				t.Fatalf("%q: %+v", reply, a)
			}
		}
		if a.Failure == core.FailNone && (min(a.Quarantine, a.Group) < 0 || max(a.Quarantine, a.Group) > spanMax) {
			t.Fatalf("%q: a quarantine out of bounds: %+v", reply, a)
		}
	})
}

// FuzzLook takes any reply for that to the question who owns three leases: each has one of the owners that the reply names, or the
// look fails.
func FuzzLook(f *testing.F) {
	for _, reply := range []string{
		"7.e\n:0\n:17\n:0\n\x00\x01\x00\x00\x00\x01\na", "7.e\n:0\n:17\n:0\n\x00\x02\x00\x00\x00\x01\na", "7.e\n:0\n:17\n:0\n", "7.e\n:0\n:17\n:0\n:5",
		"7.e\n:0\n:17\n:0\n\x00\x01\x00\x00\x00\x01\n_", "",
	} {
		f.Add(reply)
	}
	w, err := NewWire(Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		reply := replyOf(text)
		a, err := w.LookOwners(&core.Op{Kind: core.OpLook, Items: nil}, &core.Sessions{IDs: []string{"a", "b", "c"}},
			Reader{Run: func(Call) ([]any, error) { return slices.Clone(reply), nil }})
		if err != nil {
			return
		}
		for _, owner := range a.Look.Owners {
			if len(a.Look.Owners) != 3 || owner != "" && !slices.Contains(reply[5:], any(owner)) {
				t.Fatalf("%q: %q", text, a.Look.Owners)
			}
		}
	})
}

// FuzzInfo reads any answer to INFO: the server can be used, or the error is one of those that are documented.
func FuzzInfo(f *testing.F) {
	for _, text := range []string{
		"# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nrole:master\r\n", "redis_version:6.0.0", "redis_version:vv", "role:slave\nslave_read_only:1",
		"maxmemory:1\nmaxmemory_policy:allkeys-lru", "", ":", "redis_version:" + strings.Repeat("9", 400),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		warnings, err := verdict(Judge(parseInfo(text), 0))
		if err != nil && (!errors.Is(err, ErrTooOld) && !errors.Is(err, ErrReadOnly) || len(warnings) != 0) {
			t.Fatalf("%q: %q, %v", text, warnings, err)
		}
		if err == nil && !strings.Contains(text, "redis_version:") && len(warnings) == 0 {
			t.Fatalf("%q shows no version, and nothing is said about it", text)
		}
	})
}

// FuzzAsk publishes an ask of any names that the store accepts: whoever hears it reads the same.
func FuzzAsk(f *testing.F) {
	f.Add("me", "other", "a", "b")
	f.Add("-", "", "a b", "\n")
	f.Add("host-1-f", "-x", "freed", ":fence")
	w, err := NewWire(Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, from, peer, one, two string) {
		op := &core.Op{Kind: core.OpAsk, Owner: from, Items: []core.Item{{ID: one, Peer: peer}, {ID: two}}}
		if w.Validate(op) != nil {
			return
		}
		n, ok := ParseNotice(AskText(op))
		want := core.Notice{Kind: core.NoticeAsked, From: from, Peers: []string{peer}, IDs: []string{one, two}}
		if !ok || fmt.Sprintf("%#v", n) != fmt.Sprintf("%#v", want) {
			t.Fatalf("%q is heard as %#v, %v; want %#v", AskText(op), n, ok, want)
		}
	})
}
