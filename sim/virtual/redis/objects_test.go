package redis

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// objectSteps are commands on hashes, sets, sorted sets and streams; %d stands for a small number.
var objectSteps = []string{
	"HSET h f%d v%d", "HSET h f%d v%d g%d w", "HGET h f%d", "HMGET h f%d g%d f0", "HDEL h f%d g%d", "HGET s f%d",
	"SADD s m%d", "SADD s m%d m%d", "SREM s m%d", "SMEMBERS s", "SADD h m%d",
	"ZADD z %d m%d", "ZADD z XX %d m%d", "ZREM z m%d", "ZCARD z", "ZSCORE z m%d", "ZRANGE z 0 -1 WITHSCORES", "ZRANGE z 0 %d",
	"ZRANGEBYSCORE z -inf (%d LIMIT 0 2", "ZRANGEBYSCORE z -inf %d", "ZRANGEBYSCORE z (%d +inf LIMIT 0 2", "ZREVRANGEBYLEX l + - LIMIT 0 2", "ZREVRANGEBYLEX l (m%d -", "ZADD l 0 m%d",
	"XADD x * f v%d", "XADD x * f v%d g w", "XLEN x", "XRANGE x - +", "XRANGE x - + COUNT %d", "XRANGE x id%d id%d", "XRANGE x (id%d +",
	"XDEL x id%d", "XGROUP CREATE x g 0 MKSTREAM", "XGROUP DELCONSUMER x g c%d", "XREADGROUP GROUP g c%d COUNT %d STREAMS x >",
	"XREADGROUP GROUP g c%d COUNT 1 STREAMS x >", "XACK x g id%d", "XPENDING x g", "XPENDING x g - + %d", "XPENDING x g - + 9 c%d", "XPENDING x g id%d id%d 9",
	"XPENDING x g IDLE 100000 - + 9 c%d", "XCLAIM x g c%d 0 id%d", "XCLAIM x g c%d 100000 id%d", "DEL x", "DEL h s", "EXISTS h s z x",
	"XPENDING s g", "XCLAIM s g c%d 0 id%d", "XREADGROUP GROUP g c%d COUNT 1 STREAMS s >",
	"SET t v%d", "SET t v%d PX 100000", "PERSIST t", "GET t", "GET h", "PERSIST h",
}

// A model of objects does what a real Redis does, whatever is asked of it in whatever order.
func TestObjectsAreLikeRedis(t *testing.T) {
	srv := redistest.Start(t)
	client := goredis.NewClient(&goredis.Options{Addr: srv.Addr(), Protocol: 2})
	defer client.Close()
	rapid.Check(t, func(r *rapid.T) {
		srv.Flush()
		model := New(Config{Options: redisstore.Options{Quarantine: time.Second}, Wrote: deaf}, nil)
		var real, ours []string // IDs of entries, as either gave them
		for i := range rapid.IntRange(1, 60).Draw(r, "steps") {
			words := strings.Fields(rapid.SampledFrom(objectSteps).Draw(r, "step"))
			theirs, mine := make([]any, len(words)), make([]string, len(words))
			for k, word := range words {
				n := rapid.IntRange(0, 3)
				open, id := strings.CutPrefix(word, "(")
				switch {
				case strings.HasPrefix(open, "id"):
					at := n.Draw(r, "id")
					theirs[k], mine[k] = "9999999999999-9", "9999999999999-9"
					if at < len(real) {
						theirs[k], mine[k] = real[at], ours[at]
					}
					if id {
						theirs[k], mine[k] = "("+theirs[k].(string), "("+mine[k]
					}
				case strings.Contains(word, "%d"):
					word = strings.Replace(word, "%d", strconv.Itoa(n.Draw(r, "n")), 1)
					fallthrough
				default:
					theirs[k], mine[k] = word, word
				}
			}
			want, err := client.Do(t.Context(), theirs...).Result()
			got := model.command(int64(i+1)*1_000_000, mine[0], mine[1:])
			if no, refused := got.(Refusal); refused || err != nil && err.Error() != "redis: nil" {
				if err == nil || string(no) == "" || !strings.HasPrefix(err.Error(), strings.Fields(string(no))[0]) {
					r.Fatalf("step %d, %v: Redis says %v %v, the model %v", i, theirs, want, err, got)
				}
				continue
			}
			if words[0] == "DEL" && words[1] == "x" {
				real, ours = nil, nil // a stream that begins anew may give an ID again
			}
			if words[0] == "XADD" {
				real, ours = append(real, want.(string)), append(ours, got.(string))
				continue
			}
			a, b := shownAs(want, real, words[0]), shownAs(plainReply(got), ours, words[0])
			if a != b {
				r.Fatalf("step %d, %v: Redis says %s, the model %s", i, theirs, a, b)
			}
		}
	})
}

// plainReply is a reply of the model as go-redis gives it.
func plainReply(v Reply) any {
	switch v := v.(type) {
	case status:
		return string(v)
	case []Reply:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plainReply(v[i])
		}
		return out
	}
	return v
}

// shownAs writes a reply with the numbers of entries in the place of their IDs, without times, and what has no order in order.
func shownAs(v any, ids []string, verb string) string {
	list, ok := v.([]any)
	if !ok {
		text := fmt.Sprint(v)
		if i := slices.Index(ids, text); i >= 0 {
			text = fmt.Sprint("entry ", i)
		}
		return text
	}
	var out []string
	for i, x := range list {
		if verb == "XPENDING" && len(list) == 4 && i == 2 {
			if _, idle := x.(int64); idle {
				continue
			}
		}
		out = append(out, shownAs(x, ids, verb))
	}
	if verb == "SMEMBERS" {
		slices.Sort(out)
	}
	return "[" + strings.Join(out, " ") + "]"
}

var numberedID = regexp.MustCompile(`id\d`)

// A replica has each object as its master has it, after whatever commands in whatever order, by one record of the stream for each write.
func TestReplicasHaveTheObjects(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var x *Server
		now, options := int64(0), redisstore.Options{Quarantine: time.Second}
		m := New(Config{Options: options, Wrote: func(c Change) {
			if c.Kind != Added {
				x.Apply(now, c)
			}
		}}, nil)
		x = New(Config{Options: options, Wrote: deaf}, m)
		for i := range rapid.IntRange(1, 60).Draw(r, "steps") {
			now = int64(i) * int64(time.Millisecond)
			step := rapid.SampledFrom(objectSteps).Draw(r, "step")
			for strings.Contains(step, "%d") {
				step = strings.Replace(step, "%d", strconv.Itoa(rapid.IntRange(0, 3).Draw(r, "n")), 1)
			}
			id := "9999999999999-9"
			if o := m.others["x"]; o != nil && o.stream != nil && len(o.stream.entries) > 0 {
				id = o.stream.entries[i%len(o.stream.entries)].id.String()
			}
			words := strings.Fields(numberedID.ReplaceAllString(step, id))
			m.Obey(now, words)
			if !Same(&x.Data, &m.Data) {
				r.Fatalf("after %v the replica has other objects than its master", words)
			}
		}
	})
}

// A pattern that was matched before gives what it gave.
func TestRememberedMatch(t *testing.T) {
	in := newInterpreter(New(Config{Options: redisstore.Options{Quarantine: 30 * time.Second}, Wrote: deaf}, nil))
	const text = `local run, rest = string.match(ARGV[1], '^(%w+) (%d+)$')
return {run or 'none', rest or 'none', string.match(ARGV[1], '%w+') or 'none'}`
	for range 2 {
		for arg, want := range map[string]string{"run1 20": "run1 20 run1", "run1": "none none run1", "": "none none none"} {
			got, err := in.eval(text, nil, []string{arg})
			list, ok := got.([]Reply)
			if err != nil || !ok || len(list) != 3 || list[0].(string)+" "+list[1].(string)+" "+list[2].(string) != want {
				t.Errorf("%q gives %v, %v; want %s", arg, got, err, want)
			}
		}
	}
}

// Whatever a script of the product calls, the Redis of virtual time knows: an unknown command would be an error that no server gives.
func TestScriptsCallsAreKnown(t *testing.T) {
	called := regexp.MustCompile(`\b(?:redis\.p?call|try|call|soft)\('([A-Z]+)'`)
	for _, dir := range []string{"../../../internal/redisstore/lua", "../../../lease/intent/store/lua"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.lua"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d scripts, %v", dir, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range called.FindAllStringSubmatch(string(text), -1) {
				if _, known := verbs[match[1]]; !known && match[1] != "GETRANGE" { // sessions' own keys are not read in virtual time
					t.Errorf("%s calls %s", file, match[1])
				}
			}
		}
	}
}
