// Package plain keeps what others chose (the name of an instance, an argument, a reason) from reaching a terminal as anything but
// text: control characters are shown as in JSON, \u001b, which leaves JSON what it was.
package plain

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns s with everything escaped that is no printed character or space, line ends too.
func Text(s string) string {
	out, _ := escape(s, func(r rune) bool { return false }, true)
	return out
}

// Writer writes to another one and escapes what is no printed character, space, tab or line end. It is as safe for concurrent use
// as the other one. The beginning of a character that ends a Write waits for the next.
type Writer struct {
	To   io.Writer
	rest string
}

// Write writes all of p, or returns the other writer's error.
func (w *Writer) Write(p []byte) (int, error) {
	if w.rest == "" && !bytes.ContainsFunc(p, special) {
		return w.To.Write(p)
	}
	var text string
	text, w.rest = escape(w.rest+string(p), func(r rune) bool { return r == '\n' || r == '\t' }, false)
	if _, err := io.WriteString(w.To, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Kept writes to another writer and keeps its first error. Not safe for concurrent use.
type Kept struct {
	To  io.Writer
	Err error
}

// Write is To's.
func (k *Kept) Write(p []byte) (int, error) {
	n, err := k.To.Write(p)
	if k.Err == nil {
		k.Err = err
	}
	return n, err
}

// special reports whether r may have to be escaped.
func special(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r > '~' }

// escape returns the escaped text and, unless it is whole, the beginning of a character at its end.
func escape(s string, stays func(rune) bool, whole bool) (text, rest string) {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1 && !whole && !utf8.FullRuneInString(s):
			return b.String(), s
		case r == ' ' || unicode.IsPrint(r) || stays(r):
			b.WriteRune(r) // bytes that are no text become U+FFFD
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[n:]
	}
	return b.String(), ""
}

// Cut returns s, or where it is longer as much of it as most bytes hold, and "…".
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for end := most; end > most-utf8.UTFMax && end >= 0; end-- {
		if utf8.RuneStart(s[end]) {
			return s[:end] + "…"
		}
	}
	return s[:most] + "…" // it is no text
}

// nameMax is how many bytes of a foreign name are shown.
const nameMax = 100

// SaidMax is how many bytes are kept of what something of the caller's says.
const SaidMax = 4 << 10

// Said returns what something of the caller's says, such as an error or what a function panicked with, cut to SaidMax. Asked for it, it may
// panic, as a nil pointer in an error does, and what it panics with may in turn.
func Said(v any) (s string) {
	defer func() {
		if recover() != nil {
			s = fmt.Sprintf("%T", v)
		}
	}()
	return Cut(fmt.Sprint(v), SaidMax)
}

// Name returns a name that a foreign hand chose as Text does, cut to 100 bytes.
func Name(s string) string { return Text(Cut(s, nameMax)) }

// Word returns what a person may paste into a shell as one word: quoted where it has to be, and with what would not be seen escaped.
func Word(s string) string {
	text := Text(s)
	if strings.ContainsAny(s, " \t'\"`$\\*?;&|<>()[]{}~#!") {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}
