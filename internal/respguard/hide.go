package respguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/plain"
)

// repeated is what Redis says before it repeats the arguments of a command that it does not know: AUTH and HELLO, of one that has neither.
const repeated = "with args beginning with: "

// saidMax is how many bytes of a server's error are shown, and otherMax of any other: a certificate that is refused is quoted with all its
// names, of which a server may have as many as it likes.
const saidMax, otherMax = 500, 1000

// Hide returns a hook of a client that keeps the password out of the errors of its commands: a server, or a proxy before it, may repeat
// the command that it refuses. Errors of the server are cut as well.
func Hide(password string) redis.Hook { return hide{password} }

type hide struct{ password string }

// DialHook changes nothing.
func (h hide) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook hides in the error of a command.
func (h hide) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if shown, other := h.shown(cmp.Or(err, erring(cmd))); other {
			cmd.SetErr(shown)
			return shown
		}
		return err
	}
}

// ProcessPipelineHook hides in the errors of all commands.
func (h hide) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := Hidden(next(ctx, cmds), h.password)
		for _, cmd := range cmds {
			if shown, other := h.shown(cmp.Or(cmd.Err(), erring(cmd))); other {
				cmd.SetErr(shown)
				err = cmp.Or(err, shown)
			}
		}
		return err
	}
}

// erring returns the first error that stands among the elements of a reply, of which go-redis makes a value like any other: nothing that is
// asked here is answered so, and who reads the elements would show it as text.
func erring(cmd redis.Cmder) error {
	switch c := cmd.(type) {
	case *redis.Cmd:
		return among(c.Val())
	case *redis.SliceCmd:
		return among(c.Val())
	}
	return nil
}

func among(value any) error {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			if err := among(element); err != nil {
				return err
			}
		}
	case redis.Error:
		return refusal{hidden{"an element of the answer is an error: " + v.Error(), v}}
	}
	return nil
}

// Hidden returns err, or one of the same kind whose text shows no password and, no more than 500 bytes of a server's, 1,000 of any other.
func Hidden(err error, password string) error {
	shown, _ := hide{password}.shown(err)
	return shown
}

// beginMin is how many bytes of the beginning of a password are left out of a text as the whole is: Redis cuts what it repeats after 128
// bytes, and others may cut anywhere. Fewer may be any word.
const beginMin = 8

// spaced is text as Redis puts it into an error, which has no line ends.
var spaced = strings.NewReplacer("\r", " ", "\n", " ")

// Without is text without the password, "" for none, and without what begins like it: who stands in a server's place may say it as any name
// or value, and what complains of that quotes it.
func Without(text, password string) string {
	if password == "" {
		return text
	}
	quoted := strconv.Quote(password)
	forms := []string{spaced.Replace(password), quoted[1 : len(quoted)-1]}
	in := spaced.Replace(text)
	var left strings.Builder
	end := 0 // of what is left out
	for at := range len(in) {
		over := 0 // how many bytes from here on are the password's, in whichever form they begin
		for _, form := range forms {
			if n := common(in[at:], form); n >= min(beginMin, len(form)) {
				over = max(over, n)
			}
		}
		if over > 0 {
			if at >= end {
				left.WriteString(text[end:at] + "…")
			}
			end = max(end, at+over)
		}
	}
	left.WriteString(text[end:])
	return left.String()
}

// common is how many bytes a and b begin with alike.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Shown is how text that a server chose is shown: without the password, cut to 100 bytes, and with nothing that is not seen. In this
// order: what is cut or escaped first is not known for the password any more.
func Shown(text, password string) string { return plain.Name(Without(text, password)) }

// unread is the text of an error without what go-redis, and strconv, quote of a reply that they cannot read: cut and escaped, it may be the
// password all the same.
func unread(err error) string {
	text := err.Error()
	var number *strconv.NumError
	if errors.As(err, &number) || strings.Contains(text, "redis: ") {
		return unquoted(text)
	}
	return text
}

// unquoted is text without what it quotes.
func unquoted(text string) string {
	begin, end := strings.IndexByte(text, '"'), strings.LastIndexByte(text, '"')
	if end <= begin {
		return text
	}
	return fmt.Sprintf("%s(%d bytes)%s", text[:begin], end-begin-1, text[end+1:])
}

// shown returns what is shown in the place of err, and whether that is another error.
func (h hide) shown(err error) (error, bool) {
	if err == nil {
		return nil, false
	}
	text, most := err.Error(), saidMax
	if reply := redis.Error(nil); !errors.As(err, &reply) {
		text, most = unread(err), otherMax
	}
	if before, _, ok := strings.Cut(text, repeated); ok { // a password among them may be one that a provider gave, which nobody here knows
		text = before + repeated + "…"
	}
	if text = plain.Cut(Without(text, h.password), most); text == err.Error() {
		return err, false
	}
	return retold(err, text), true
}

// retold is err with another text.
func retold(err error, text string) error {
	var said redis.Error
	if errors.As(err, &said) {
		return refusal{hidden{text, err}}
	}
	return hidden{text, err}
}

// hidden is an error with another text. It does not unwrap: whoever shows the innermost error is not to show the password.
type hidden struct {
	text string
	err  error
}

func (h hidden) Error() string        { return h.text }
func (h hidden) Is(target error) bool { return errors.Is(h.err, target) }
func (h hidden) As(target any) bool   { return errors.As(h.err, target) }

// refusal is one that the server said.
type refusal struct{ hidden }

// RedisError implements redis.Error.
func (refusal) RedisError() {}

var _ redis.Error = refusal{}
