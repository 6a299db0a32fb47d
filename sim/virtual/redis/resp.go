package redis

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Replies of commands that RESP3 shows otherwise than RESP2. No script gets one.
type (
	dict     []Reply // key, value, …
	members  []Reply
	double   float64
	verbatim string
	push     []Reply // out of band in RESP3
	several  []Reply // one frame each
	noList   struct{}
)

// streams are pairs, which RESP3 shows as a map.
type streams []Reply

func (s streams) dict() dict {
	var all dict
	for _, pair := range s {
		all = append(all, pair.([]Reply)...)
	}
	return all
}

// appendReply appends a reply in RESP2 or RESP3.
func appendReply(out []byte, v Reply, resp3 bool) []byte {
	switch v := v.(type) {
	case nil:
		return appendNull(out, "$-1\r\n", resp3)
	case noList:
		return appendNull(out, "*-1\r\n", resp3)
	case int64:
		return appendLine(out, ':', strconv.FormatInt(v, 10))
	case status:
		return appendLine(out, '+', string(v))
	case Refusal:
		return appendLine(out, '-', string(v))
	case string:
		return appendText(out, '$', v)
	case []Reply:
		return appendAll(out, '*', len(v), v, resp3)
	case several:
		for i := range v {
			out = appendReply(out, v[i], resp3)
		}
		return out
	}
	if resp3 {
		return appendRich(out, v)
	}
	return appendReply(out, flat(v), false)
}

// appendRich appends a reply that RESP2 does not know.
func appendRich(out []byte, v Reply) []byte {
	switch v := v.(type) {
	case dict:
		return appendAll(out, '%', len(v)/2, v, true)
	case streams:
		return appendRich(out, v.dict())
	case members:
		return appendAll(out, '~', len(v), v, true)
	case push:
		return appendAll(out, '>', len(v), v, true)
	case double:
		return appendLine(out, ',', doubleText(float64(v)))
	case verbatim:
		return appendText(out, '=', "txt:"+string(v))
	}
	panic(fmt.Sprintf("redis: a command replied %T", v))
}

// flat is what RESP2 shows instead.
func flat(v Reply) Reply {
	switch v := v.(type) {
	case dict:
		return []Reply(v)
	case streams:
		return []Reply(v)
	case members:
		return []Reply(v)
	case push:
		return []Reply(v)
	case double:
		return doubleText(float64(v))
	case verbatim:
		return string(v)
	}
	panic(fmt.Sprintf("redis: a command replied %T", v))
}

func doubleText(f float64) string {
	if math.IsInf(f, 0) {
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64)), "+")
	}
	return strconv.FormatFloat(f, 'g', 17, 64)
}

func appendNull(out []byte, resp2 string, resp3 bool) []byte {
	if resp3 {
		resp2 = "_\r\n"
	}
	return append(out, resp2...)
}

func appendLine(out []byte, kind byte, text string) []byte {
	return append(append(append(out, kind), text...), "\r\n"...)
}

func appendText(out []byte, kind byte, text string) []byte {
	out = appendLine(out, kind, strconv.Itoa(len(text)))
	return append(append(out, text...), "\r\n"...)
}

func appendAll(out []byte, kind byte, n int, all []Reply, resp3 bool) []byte {
	out = appendLine(out, kind, strconv.Itoa(n))
	for i := range all {
		out = appendReply(out, all[i], resp3)
	}
	return out
}

// Limits of Redis, except that a word may have 512 MB there.
const (
	wordsMax  = 1 << 20
	wordMax   = 64 << 20
	inlineMax = 64 << 10
)

// input is what a client has sent and no command has used.
type input struct {
	bytes []byte
	room  []byte   // for bytes
	args  []string // of an incomplete command
	left  int      // its missing words
}

func (in *input) feed(p []byte) {
	if len(in.bytes) == 0 {
		in.bytes = append(in.room[:0], p...)
		in.room = in.bytes
		return
	}
	in.bytes = append(in.bytes, p...)
}

// next returns the next command, nil if none is complete. An error is Redis' reply, after which it closes the connection.
func (in *input) next() ([]string, error) {
	for in.left == 0 {
		words, ok, err := in.head()
		if !ok || words != nil {
			return words, err
		}
	}
	for in.left > 0 {
		word, ok, err := in.word()
		if !ok {
			return nil, err
		}
		in.args = append(in.args, word)
		in.left--
	}
	args := in.args
	in.args = nil
	return args, nil
}

// head takes the first line of a command, if it is complete: the number of words, or the words themselves.
func (in *input) head() (words []string, ok bool, err error) {
	line, ok, err := in.line("too big inline request")
	if !ok {
		return nil, false, err
	}
	if len(line) == 0 || line[0] != '*' {
		if words = strings.Fields(string(line)); len(words) == 0 {
			words = nil
		}
		return words, true, nil
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil || n > wordsMax {
		return nil, false, protocolError("invalid multibulk length")
	}
	in.left = max(0, n)
	return nil, true, nil
}

// word takes one word if it is complete.
func (in *input) word() (text string, ok bool, err error) {
	before := in.bytes
	line, ok, err := in.line("too big bulk count string")
	if !ok {
		return "", false, err
	}
	if len(line) == 0 || line[0] != '$' {
		return "", false, protocolError(fmt.Sprintf("expected '$', got '%c'", append(line, ' ')[0]))
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil || n < 0 || n > wordMax {
		return "", false, protocolError("invalid bulk length")
	}
	if len(in.bytes) < n+2 {
		in.bytes = before
		return "", false, nil
	}
	text = string(in.bytes[:n])
	in.bytes = in.bytes[n+2:]
	return text, true, nil
}

// line takes one line, without its end, if it is complete.
func (in *input) line(tooLong string) (line []byte, ok bool, err error) {
	i := bytes.IndexByte(in.bytes, '\n')
	if i < 0 {
		if len(in.bytes) > inlineMax {
			err = protocolError(tooLong)
		}
		return nil, false, err
	}
	line, in.bytes = bytes.TrimSuffix(in.bytes[:i], []byte("\r")), in.bytes[i+1:]
	return line, true, nil
}

func protocolError(why string) error { return Refusal("ERR Protocol error: " + why) }
