package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/leasestorm/leasestorm/internal/plain"
)

func colored(out io.Writer) io.Writer {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return out
	}
	return painter{out}
}

type painter struct{ io.Writer }

// simulate prints no other words in capitals.
var verdictColors = strings.NewReplacer("PASS", "\x1b[32mPASS\x1b[0m", "FAIL", "\x1b[1;31mFAIL\x1b[0m", "BROKEN", "\x1b[1;31mBROKEN\x1b[0m",
	"UNKNOWN", "\x1b[33mUNKNOWN\x1b[0m")

func (p painter) Write(b []byte) (int, error) {
	_, err := verdictColors.WriteString(p.Writer, string(b))
	return len(b), err
}

// below returns the writer under a plain.Writer, for output that moves a terminal's cursor.
func below(out io.Writer) io.Writer {
	if w, ok := out.(*plain.Writer); ok {
		return w.To
	}
	return out
}
