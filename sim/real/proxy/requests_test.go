package proxy

import (
	"strings"
	"testing"
)

func TestRequestsAreCountedHoweverTheyAreTorn(t *testing.T) {
	sent := "*1\r\n$4\r\nPING\r\n" +
		"*3\r\n$7\r\nEVALSHA\r\n$14\r\n*1\r\n$4\r\nPING\r\n\r\n$0\r\n\r\n" + // a value that looks like a command is none
		"PING\r\n\r\n" + // a line of words is a command, an empty one none
		"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
	for size := 1; size <= len(sent); size++ {
		var r requests
		got := int64(0)
		for b := []byte(sent); len(b) > 0; b = b[min(size, len(b)):] {
			got += r.take(b[:min(size, len(b))])
		}
		if got != 4 {
			t.Errorf("in pieces of %d bytes: %d commands, want 4", size, got)
		}
	}
}

func TestRequestsOutliveNonsense(t *testing.T) {
	for _, sent := range []string{
		"*99999999999999999999\r\n", "$5\r\nhello\r\n", "*2\r\nwhat\r\n", "\x16\x03\x01\x02\x00\n\n\n", "*-1\r\n",
	} {
		var r requests
		r.take([]byte(sent + strings.Repeat("x", 100) + "\r\n"))
		if r.skip < 0 || r.words < 0 {
			t.Errorf("%q: %+v", sent, r)
		}
	}
}
