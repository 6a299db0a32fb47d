package stream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testKeys = &Keys{Epoch: "poll:epoch", Split: func(key []byte) (Kind, string) {
	if id, ok := strings.CutPrefix(string(key), "{poll:lease:"); ok {
		return KeyFence, id
	}
	if id, ok := strings.CutPrefix(string(key), "poll:lease:"); ok {
		return KeyLease, id
	}
	return KeyOther, ""
}}

// A lease that lasts for centuries is recorded as long, whatever command set it, before and after the stream began.
func TestStreamSeesFarEnds(t *testing.T) {
	rec := history.NewRecorder()
	s := &Stream{
		at: Server{Admin: &redis.Options{}}, keys: testKeys, clock: host.NewClock(), add: rec.Add, up: make(chan struct{}),
		held: map[string]held{}, fences: map[string]int64{},
	}
	far := time.Now().UnixMilli() + 3000 + 1<<58 // in ns and 64 bits, three seconds from now
	// Numbers of scripts are doubles, so a script returns Redis' last expiry as one more than 64 bits hold.
	s.begin(snapshot{keys: []string{"poll:lease:a", "me", fmt.Sprint(far), "poll:lease:z", "me", "9223372036854775808"}})
	for _, words := range []string{
		"SET poll:lease:b me PXAT $", "SET poll:lease:c me PX $", "PSETEX poll:lease:d $ me", "SET poll:lease:e me EXAT $/",
		"SET poll:lease:f me EX $/", "SETEX poll:lease:g $/ me",
	} {
		words = strings.NewReplacer("$/", fmt.Sprint(far/1000), "$", fmt.Sprint(far)).Replace(words)
		var parts [][]byte
		for _, w := range strings.Fields(words) {
			parts = append(parts, []byte(w))
		}
		s.command(parts)
	}
	for _, verb := range []string{"PEXPIREAT", "PEXPIRE", "EXPIREAT", "EXPIRE"} {
		n := far
		if !strings.HasPrefix(verb, "P") {
			n /= 1000
		}
		s.command([][]byte{[]byte(verb), []byte("poll:lease:" + verb), fmt.Append(nil, n)})
	}
	s.placed(s.clock.Now())
	seen := 0
	for e := range rec.Events() {
		if e.Kind != history.RedisGranted && e.Kind != history.RedisExtended {
			continue
		}
		if seen++; e.Until-e.T < int64(50*365*24*time.Hour) {
			t.Errorf("%v of %s lasts for %v", e.Kind, e.Session, time.Duration(e.Until-e.T))
		}
	}
	if seen != 12 {
		t.Errorf("%d leases are seen, want 12", seen)
	}
}

func FuzzReplicationStream(f *testing.F) {
	f.Add([]byte("*3\r\n$3\r\nSET\r\n$12\r\npoll:lease:s\r\n$2\r\nme\r\n"))
	f.Add([]byte("*3\r\n$9\r\nPEXPIREAT\r\n$12\r\npoll:lease:s\r\n$13\r\n1700000000000\r\n"))
	f.Add([]byte("*2\r\n$4\r\nINCR\r\n$20\r\n{poll:lease:s}:fence\r\n"))
	f.Add([]byte("*1\r\n$8\r\nFLUSHALL\r\n\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := &Stream{
			at: Server{Admin: &redis.Options{}}, keys: testKeys, clock: host.NewClock(), add: history.NewRecorder().Add, held: map[string]held{}, fences: map[string]int64{},
		}
		in = append(in, "\r\n"...)
		for b := bufio.NewReader(bytes.NewReader(in)); ; {
			words, err := readCommand(b, nil)
			if err != nil {
				return
			}
			if len(words) > 0 {
				s.command(words)
			}
		}
	})
}

func TestSkipSnapshot(t *testing.T) {
	mark := strings.Repeat("m", 40)
	for name, c := range map[string]struct {
		in   string
		left string
		bad  bool
	}{
		"length":             {in: "$5\r\nRDB\r\n*1", left: "*1"},
		"mark":               {in: "\n\n$EOF:" + mark + "\r\nREDIS" + mark + "*1", left: "*1"},
		"mark after a false": {in: "$EOF:" + mark + "\r\n" + mark[:39] + "x" + mark + "*1", left: "*1"},
		"cut off":            {in: "$50\r\nRDB", bad: true},
		"no snapshot":        {in: "-ERR no\r\n", bad: true},
		"negative":           {in: "$-1\r\n", bad: true},
	} {
		r := bufio.NewReader(strings.NewReader(c.in))
		err := skipSnapshot(r)
		left, _ := io.ReadAll(r)
		if (err != nil) != c.bad || !c.bad && string(left) != c.left {
			t.Errorf("%s: %v, left %q; want %q", name, err, left, c.left)
		}
	}
}

func TestReadCommand(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want string
		bad  bool
	}{
		"command":     {in: "*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n", want: "DEL k"},
		"inline":      {in: "PING  x\r\n", want: "PING x"},
		"keep-alive":  {in: "\n", want: ""},
		"long":        {in: "*2\r\n$3\r\nSET\r\n$5000\r\n" + strings.Repeat("x", 5000) + "\r\n", want: "SET " + strings.Repeat("x", argKeep)},
		"no bulk":     {in: "*1\r\n+OK\r\n", bad: true},
		"negative":    {in: "*-1\r\n", bad: true},
		"huge":        {in: "*99999999\r\n", bad: true},
		"huge word":   {in: "*1\r\n$99999999999\r\n", bad: true},
		"cut off":     {in: "*1\r\n$3\r\nDE", bad: true},
		"no line end": {in: strings.Repeat("x", 5000), bad: true},
	} {
		words, err := readCommand(bufio.NewReader(strings.NewReader(c.in)), nil)
		if got := string(bytes.Join(words, []byte(" "))); (err != nil) != c.bad || !c.bad && got != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// FuzzSnapshot reads any beginning of a synchronization, exactly to its end or with an error.
func FuzzSnapshot(f *testing.F) {
	mark := strings.Repeat("m", 40)
	for _, in := range []string{
		"\n\n$5\r\nREDIS", "$EOF:" + mark + "\r\nREDIS" + mark, "$EOF:\r\n", "$-1\r\n", "$99999999999999999999\r\n", "*1\r\n", "", "$3\r\nRE", "$0\r\n",
		"$EOF:aab\r\naaab",
	} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		const next = "*1\r\n$4\r\nPING\r\n"
		r := bufio.NewReader(io.MultiReader(bytes.NewReader(in), strings.NewReader(next)))
		if err := skipSnapshot(r); err != nil {
			if !errors.Is(err, errProtocol) && !errors.Is(err, io.EOF) {
				t.Fatalf("%q: %v", in, err)
			}
			return
		}
		rest, err := io.ReadAll(r)
		head := bytes.TrimLeft(in, "\r\n")
		if err != nil || len(rest) > len(in)+len(next) || !strings.HasSuffix(next, string(rest)) && !strings.HasSuffix(string(rest), next) ||
			len(head) > 0 && head[0] != '$' {
			t.Fatalf("%q: there remains %q, %v", in, rest, err)
		}
	})
}
