package redis

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// keysOfDialogues are keys that the model holds in different ways.
var keysOfDialogues = []string{"k", leaseKeyOf("x"), fenceKeyOf("x"), beatKeyOf("a"), "poll:lease:unknown"}

// line is the client's end of one connection to Redis and of one to the model.
type line struct {
	t     *testing.T
	real  net.Conn
	in    *bufio.Reader
	front *Front
	heard []byte // frames of the model that no comparison used
}

func newLine(t *testing.T, srv *redistest.Server, model *Server, resp3 bool) *line {
	c, err := net.Dial("tcp", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	l := &line{t: t, real: c, in: bufio.NewReader(c)}
	l.front = model.Connect(func(p []byte) { l.heard = append(l.heard, p...) })
	if resp3 {
		l.front.resp3 = true
		l.write([]string{"HELLO", "3"})
		if _, err := readFrame(l.in); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func (l *line) write(words []string) {
	out := appendReply(nil, texts(words), false)
	if _, err := l.real.Write(out); err != nil {
		l.t.Fatal(err)
	}
}

// ask sends a command to Redis and the model.
func (l *line) ask(at int64, words []string) {
	l.write(words)
	commands, no := l.front.Commands(appendReply(nil, texts(words), false))
	if len(commands) != 1 || no != nil {
		l.t.Fatalf("%q is parsed as %q, %q", words, commands, no)
	}
	out, wait := l.front.Execute(at, commands[0])
	if wait != nil {
		out = append(out, l.front.Resume(wait.given())...)
	}
	l.heard = append(l.heard, out...)
}

// compare reads as many frames of Redis as the model sent, and one fewer or more if they differ in number.
func (l *line) compare(sorted bool) string {
	var want []byte
	for in := bufio.NewReader(bytes.NewReader(l.heard)); ; {
		if _, err := readFrame(in); err != nil {
			break
		}
		_ = l.real.SetReadDeadline(time.Now().Add(time.Second))
		frame, err := readFrame(l.in)
		want = append(want, frame...)
		if err != nil {
			break
		}
	}
	got := l.heard
	l.heard = nil
	if sorted {
		want, got = sortedLines(want), sortedLines(got)
	}
	if !bytes.Equal(want, got) {
		return fmt.Sprintf("Redis sends\n%q, the model\n%q", want, got)
	}
	return ""
}

func sortedLines(p []byte) []byte {
	all := bytes.Split(p, []byte("\r\n"))
	slices.SortFunc(all, bytes.Compare)
	return bytes.Join(all, []byte("\r\n"))
}

// readFrame returns the bytes of the next reply.
func readFrame(in *bufio.Reader) ([]byte, error) {
	head, err := in.ReadBytes('\n')
	if err != nil {
		return head, err
	}
	n, _ := strconv.Atoi(string(bytes.TrimSpace(head[1:])))
	switch head[0] {
	case '$', '=':
		if n < 0 {
			return head, nil
		}
		text := make([]byte, n+2)
		_, err := io.ReadFull(in, text)
		return append(head, text...), err
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return head, nil
	}
	for range n {
		next, err := readFrame(in)
		if head = append(head, next...); err != nil {
			return head, err
		}
	}
	return head, nil
}

// words splits a line at spaces outside quotation marks.
func wordsOf(text, key string) []string {
	var out []string
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		word, rest, _ := strings.Cut(text, " ")
		if text[0] == '"' {
			word, rest, _ = strings.Cut(text[1:], `"`)
			word = strings.ReplaceAll(word, `\n`, "\n")
		} else if word == "K" {
			word = key
		}
		out, text = append(out, word), rest
	}
	return out
}

// frontOfTest is a model that shows what the real server's clock does.
func frontOfTest() *Server {
	r := New(Config{
		Options: redisstore.Options{Quarantine: time.Second}, Wrote: deaf, Publish: func(core.Notice) {}, Guests: true,
	}, nil)
	r.Clock.Wall = time.Now().UnixNano()
	r.Lease("x")
	return r
}

// lines are two connections to Redis and to the model, both of which are empty.
type lines struct {
	all  [2]*line
	from time.Time
}

func newLines(t *testing.T, srv *redistest.Server, resp3 bool) *lines {
	srv.Flush()
	srv.Do("SCRIPT", "FLUSH")
	srv.Do("CLIENT", "KILL", "TYPE", "pubsub") // of an earlier play
	model := frontOfTest()
	return &lines{all: [2]*line{newLine(t, srv, model, resp3), newLine(t, srv, model, resp3)}, from: time.Now()}
}

func (ls *lines) step(text, key string) string {
	l := ls.all[0]
	text, second := strings.CutPrefix(strings.TrimSpace(text), "2:")
	if second {
		l = ls.all[1]
	}
	words := wordsOf(text, key)
	l.ask(int64(time.Since(ls.from)), words)
	sorted := slices.Contains([]string{"KEYS", "SCAN", "CONFIG", "SMEMBERS", "CLIENT", "UNSUBSCRIBE", "PUNSUBSCRIBE"}, words[0])
	if diff := l.compare(sorted); diff != "" {
		return diff
	}
	return ls.all[0].compare(sorted)
}

// play returns the first difference.
func (ls *lines) play(dialogue, key string) string {
	defer func() { _, _ = ls.all[0].real.Close(), ls.all[1].real.Close() }()
	for text := range strings.Lines(dialogue) {
		if diff := ls.step(text, key); diff != "" {
			return strings.TrimSpace(text) + ": " + diff
		}
	}
	return ""
}

// A client of the model reads the same bytes as one of a real Redis.
func TestFrontIsLikeRedis(t *testing.T) {
	srv := redistest.Start(t)
	for _, resp3 := range []bool{false, true} {
		for _, key := range keysOfDialogues {
			for _, dialogue := range dialogues {
				diff := newLines(t, srv, resp3).play(dialogue, key)
				for range 2 { // what a slow machine causes does not happen again
					if diff != "" {
						diff = newLines(t, srv, resp3).play(dialogue, key)
					}
				}
				if diff != "" {
					t.Errorf("RESP3 %v, %s, %s", resp3, key, diff)
				}
			}
		}
	}
}

// randomLines are the lines of the dialogues, without those that depend on a moment or close the connection.
func randomLines() []string {
	var all []string
	for _, dialogue := range dialogues {
		for text := range strings.Lines(dialogue) {
			text = strings.TrimSpace(text)
			if words := strings.Fields(strings.TrimPrefix(text, "2:")); !slices.Contains([]string{"QUIT", "PTTL", "PEXPIRETIME"}, words[0]) {
				all = append(all, text)
			}
		}
	}
	return all
}

// So it is for commands in any order.
func TestFrontIsLikeRedisInAnyOrder(t *testing.T) {
	srv, all := redistest.Start(t), randomLines()
	rapid.Check(t, func(r *rapid.T) {
		resp3, key := rapid.Bool().Draw(r, "RESP3"), rapid.SampledFrom(keysOfDialogues).Draw(r, "key")
		steps := strings.Join(rapid.SliceOfN(rapid.SampledFrom(all), 1, 80).Draw(r, "steps"), "\n")
		diff := newLines(t, srv, resp3).play(steps, key)
		for range 2 {
			if diff != "" {
				diff = newLines(t, srv, resp3).play(steps, key)
			}
		}
		if diff != "" {
			r.Fatal(diff)
		}
	})
}
