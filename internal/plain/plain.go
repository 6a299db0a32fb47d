// Package plain keeps foreign text from moving a terminal's cursor. It shows control characters as in JSON, \u001b, so that the meaning of
// JSON stays the same.
package plain

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Text returns s with every character escaped that is not printable, line ends too.
func Text(s string) string { return escape(s, "") }

func escape(s, stays string) string {
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) || strings.ContainsRune(stays, r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// Writer escapes what is written to it, except tabs and line ends, and keeps To's first error. Not safe for concurrent use.
type Writer struct {
	To  io.Writer
	Err error
}

// Write implements io.Writer. p holds whole characters.
func (w *Writer) Write(p []byte) (int, error) {
	_, err := io.WriteString(w.To, escape(string(p), "\n\t"))
	if w.Err == nil {
		w.Err = err
	}
	return len(p), err
}

// Cut returns s, or its first most bytes and "…".
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Count returns "1 fault", or "3 faults" for three.
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Name returns a name as Text does, cut to 100 bytes.
func Name(s string) string { return Text(Cut(s, 100)) }

// Word returns s as one word that can be pasted into a shell.
func Word(s string) string {
	if s == "" || strings.ContainsAny(s, " \t'\"`$\\*?;&|<>()[]{}~#!") {
		return "'" + strings.ReplaceAll(Text(s), "'", `'\''`) + "'"
	}
	return Text(s)
}
