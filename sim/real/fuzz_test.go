package real

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// FuzzSnapshot reads any beginning of a synchronisation: to its end and not a byte further, or an error.
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
